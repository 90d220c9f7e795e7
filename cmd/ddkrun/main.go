// Command ddkrun runs a program that uses libibverbs as if the machine had the RDMA devices of a daemon, ddkd. It needs
// no kernel module, no root and no device file, and the program is not changed.
//
//	ddkrun ibv_devinfo -v
//	ddkrun ib_write_bw                  # in one terminal
//	ddkrun ib_write_bw 127.0.0.1        # and in another one
//	ddkrun --explain                    # what a program would find, and why
//
// docs/verbs.md is for users: what works, CI and containers, errors.
//
// # The daemon
//
// ddkrun uses, in this order: the daemon of the flag --socket or of $DDKD_SOCKET, the daemon of the machine, the daemon
// of the user. If there is none, it starts one for the user, with one adapter at 127.0.0.1. That daemon stops when
// no program was running for half an hour; with the last program, if CI is set; after the time of --idle or of
// $DDKRUN_IDLE; by --stop.
//
// The program finds the adapters of the daemon and no others: RDMA devices of the machine are hidden.
//
// --install writes the library of the carrier preload, and the files that programs see, to a directory, and prints the
// environment with which programs use the daemon without ddkrun.
//
// --wait waits for the daemon of --socket or of $DDKD_SOCKET, and --wait-port for a server on this machine, before the
// program starts. A daemon with another version of the protocol is not used; the error names both versions.
//
// # Carriers
//
// A carrier passes the program's calls on RDMA files to the daemon. --carrier selects it:
//
//   - preload: ddkrun preloads a small C library, which redirects the device files and the files of sysfs. The library
//     is in this program, built for amd64 and arm64 and for glibc from 2.28 on, with its source. It is written to the
//     user's cache directory, or to another one that only the user can change. Children of the program inherit it.
//     With --compile, it is compiled with the C compiler of the machine (cc) instead.
//   - seccomp: ddkrun is notified of the program's system calls on such files, and executes them. It works for static
//     programs and Go programs. Package ciddk/internal/seccomp describes it.
//   - auto, the default: seccomp for static programs and where no directory can have the library, else preload.
//
// # Memory
//
// With the carrier preload, the library moves memory that the program registers to a file in memory, which the daemon
// maps, if the memory is private, consists of whole pages, and the program has one thread at that time. The daemon
// copies from and to other memory, by system calls, which takes longer. --share-memory selects when memory is moved:
//
//   - --share-memory=auto, the default: up to 64 MiB, and only where the program does not notice it.
//   - --share-memory=always, or --share-memory alone: wherever it is possible.
//   - --share-memory=never: all memory is copied.
//
// The environment variable DDKRUN_SHARE_MEMORY sets the default. docs/verbs.md describes what a program may notice.
//
// Exit status: that of the program; 127 if it cannot be started; 125 for errors of ddkrun itself; 2 for usage.
package main

import (
	"os"

	"ciddk/cmd/ddkrun/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
