// Package verbs tests that unmodified verbs programs of the distribution run on a daemon's adapters by ddkrun: programs
// that list devices, the ping-pongs of rdma-core, perftest, and the programs of librdmacm. It has no code besides its
// tests.
//
// On Debian the programs are in the packages ibverbs-utils, ibverbs-providers, perftest and rdmacm-utils;
// libibverbs-dev has headers. A test without its program, or without a C compiler, is skipped.
package verbs
