package main

import (
	"context"
	"fmt"
)

// Example shows what the program prints.
func Example() {
	fmt.Println(run(context.Background(), "sqlite::memory:", order{"ada", 4200}))
	// Output: receipt ada-4200, charged at attempt 2 <nil>
}

// (T6) a permanent failure is not tried again.
func Example_permanent() {
	_, err := run(context.Background(), "sqlite::memory:", order{"ada", 0})
	fmt.Println(err)
	// Output: error: cannot charge 0 cents
}
