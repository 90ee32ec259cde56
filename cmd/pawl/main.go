// Command pawl runs workflows as durable jobs, shows what became of them, and
// checks their audit trail. Flags, environment and files are read here and
// nowhere else.
package main

import "os"

func main() {
	limitHeap()
	os.Exit(processOf(os.Args[1:]).main())
}
