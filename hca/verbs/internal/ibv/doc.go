// Package ibv calls the system's libibverbs without cgo. The library is opened at run time, so that a program that
// imports this package is linked dynamically and needs a C library, but no C compiler.
//
// The package has the structures of infiniband/verbs.h (rdma-core; their layout is its ABI since version 1.1), and a
// method for each function. Objects of the library are numbers (addresses in its memory), which only this package
// dereferences. It checks nothing that the library checks, and adds no rule of package ci.
//
// Functions that the library calls through the context of a device (post, poll, notify, windows) are called through
// its pointers, as the inline functions of the header do.
package ibv
