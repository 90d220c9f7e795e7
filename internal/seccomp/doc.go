// Package seccomp runs a program on the adapters of a daemon by seccomp user notification. It is the carrier of ddkrun
// for programs that make system calls without the C library: static programs and Go programs.
//
//	status, err := seccomp.Run(seccomp.Config{Self: self, Socket: socket, Root: root, Path: path, Args: args})
//
// # Processes
//
// Run starts a supervisor, which starts the program. Both are this executable, with arguments that Main recognizes. The
// program's process installs a filter, passes the listener to the supervisor, and executes the program. The filter is
// inherited by all children. The supervisor ends when the last of them has ended. If it is killed, the calls that it
// would execute fail with ENOSYS.
//
// # Calls
//
// The filter notifies the supervisor of calls with paths, and of calls on descriptors of a range of numbers. All other
// calls run at full speed. The supervisor lets a call continue unless it concerns a file of the tree or a device file.
//
// A file of the tree is opened by the supervisor, which installs the descriptor in the program. A device file gets a
// descriptor in the range:
//
//   - of uverbs: memory, first an empty file and then the queues, so that the program can map it. The supervisor has
//     the connection. It holds a lock of the open file (OFD) that it has installed, and the kernel releases that lock
//     when all copies of the descriptor are closed and all mappings removed. Then the supervisor closes the connection.
//   - of others: the connection itself, so that the program can poll it. Its socket has a name, by which the supervisor
//     recognizes it.
//
// # Doorbells
//
// A program that polls leaves few processors for the supervisor, which would have to answer each doorbell. The library
// of Config.Preload therefore gets the memory with the adapter's bells, and a table of the program's bells that the
// supervisor keeps, by an ioctl of its own (bells_linux.go). It makes a call only if the adapter sleeps. The memory has
// another open file there, so that the lock above is not held by it.
//
// # Bad input
//
// The program is hostile. Its memory is copied with process_vm_readv and process_vm_writev, and an address that is not
// valid fails with EFAULT. After reading, the supervisor checks that the notification is still valid, so that the
// number of the process is not that of another one. What a program can change while a call executes concerns only
// itself: the supervisor has no rights that the program does not have.
//
// # Limits
//
// Linux 5.14 on amd64 and arm64. Setuid programs run without their privileges (no_new_privs). A process has one
// listener, so ddkrun cannot run in a program that ddkrun runs in this way. Copying a descriptor of a device file to a
// number outside the range fails with EBUSY. Only programs with Config.Preload, which replaces chdir,
// can change their working directory to one of the tree by its path.
package seccomp
