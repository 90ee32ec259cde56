package main

// Example shows what the program prints.
func Example() {
	main()
	// Output: COMPLETED: "charged {\"amount\":42} at attempt 2"
}
