// Command arrows counts the calls between the source files of a package and reports those that point up.
//
// An arrow leads from one file to another: code in the first refers to a function or a method that the second declares.
// A reference counts whether or not it is a call, so that a method value is an arrow, too. A call of an interface's
// method leads to the file that declares the interface. However many references there are, two files have at most one
// arrow in each direction.
//
// The order of the files is declared, bottom up, in a committed text file: orders/rvt.txt for package rvt and the
// packages below its folder. An arrow points up if its first file stands before its second one. The test of this
// package fails if the fraction of arrows that point up exceeds the limit in the text file, or if the list does not
// contain exactly the package's files.
//
//	go run ./tools/arrows              # rvt: the figures, and each arrow that points up with its calls
//	go run ./tools/arrows -folder rvt -all
package main
