// Command apilist lists the exported API of every public package, one line for each exported identifier, in the folder
// api at the top of the module: api/ci.txt, api/accesslayer.cm.txt and so on. The listings are committed, so a change
// of the API shows in the diff of the change that makes it. A test fails when they are stale.
//
//	go generate ./tools/apilist    # writes the listings
//	go run ./tools/apilist -count  # prints the number of lines of each package
//
// A line holds the kind, the name and the signature of an identifier; fields of structures and methods have lines of
// their own. Methods and fields that come by embedding are listed with the type that has them. Constants include their
// value. Packages for Linux on amd64 are listed, without cgo, on every system. Public packages are those that other
// modules can import, except programs, templates, examples, benchmarks and tests.
package main

//go:generate go run .
