// Command reports certifies adapters that people have, and writes what it found to docs/reports, a folder each:
//
//	go run ./test/reports                 # all of them
//	go run ./test/reports rxe-debian12    # one
//
// The adapters are those of Linux in a virtual machine, and of stock user libraries on the kit's own daemon. It needs
// root and the packages of .ci/run, and some hours for all: a virtual machine without KVM is slow.
//
// A folder has what a submission for conformance has elsewhere: product.json says what was judged, run.log is the
// output of the certifier without the cases that passed or were skipped, and junit.xml.gz has the results of all for
// programs. findings.md, which argues each failure, is written by hand; a report whose failures it does not name is
// not complete, and the command says so.
package main
