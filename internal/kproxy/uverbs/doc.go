// Package uverbs implements the device files that libibverbs uses, /dev/infiniband/uverbs0 and so on, with the files of
// sysfs that belong to them. Unmodified verbs programs, with the stock libraries of their distribution, so use the
// adapters of a daemon. The package is a front end of kproxy's session core and contains nothing about carriers; see
// package devices.
//
//	u, err := uverbs.New(uverbs.Config{AL: al, Core: core, Providers: providers})
//	s := devices.New(u, core.MaxClients(), clk)
//
// # Sessions
//
// An open device file is a client of the session core. Handles of the ABI have 32 bits and count from 0 in each file;
// the file maps them to handles of the session. Quotas, events and cleanup are the session's.
//
// # Commands
//
// A program writes a command: a header, a structure, and driver data of the user library. Table methods declares each
// command with the structures of its request and reply, from which the checks of sizes follow, with the errors of
// Linux. The reply is stored at an address in the request.
//
// An ioctl has a header and an array of attributes, most of which refer to memory of the program. Table ioctlMethods
// declares each method with its attributes. The reply to the first attempt lists the memory that the call needs, and
// the carrier repeats the call with it. A method that is not in the table fails with EPROTONOSUPPORT, as on older
// kernels, and the libraries then use writes.
//
// Driver data is the private data of the SAS: the package passes it to the driver and back without interpreting it. So
// the queues that the user library maps are those that the driver has made for it. A Provider describes what differs
// between drivers. The stock library of Linux Soft-RoCE (librxe) fills the queues of the software adapter.
//
// # Events
//
// Descriptors of events are sockets from which each read returns one event in the layout of the ABI. As in Linux, the
// reply to a destroy has the number of events that the program has read, and events that it has not read are removed.
//
// # Names
//
// With RDMA netlink (package nldev), libibverbs finds the user library by the number of its driver, and devices can
// have any name. Without, it does so by the name of the device, so the default begins with that of the provider:
// rxe_ddk0.
//
// # Bad input
//
// Sizes, handles, numbers and addresses come from a program that may be hostile. Every handle is looked up in the table
// of its file. The errno of a failed command is that of Linux.
//
// # Not implemented
//
// Extended connections (XRC), flow steering, receive tables, device memory, time stamps, and commands that post or poll
// by system calls, which the user libraries do not use. Of the ioctl interface: writes by ioctl (INVOKE_WRITE), more
// than one descriptor of asynchronous events in a context, memory of other devices (DMABUF), and counters.
package uverbs
