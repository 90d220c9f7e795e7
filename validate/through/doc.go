// Package through certifies a driver through the process boundary: the driver runs in a daemon process of its own, and
// the certifier's cases run on package ual in the worker process.
//
//	func main() {
//		through.Serve(drivers...) // does not return in a daemon process
//		os.Exit(cli.Main(cli.Config{Drivers: drivers, Layers: through.Layers(), …}, os.Args[1:]))
//	}
//
// In a test, the driver of validate.TestDriver can be through.User(d). TestMain calls Serve if the test has InProcess
// set; otherwise User serves the daemon process itself.
//
// # Processes
//
// The daemon process is the same program, started again with the same arguments. Its first descriptor after standard
// error is a socket to the worker. On it, the worker requests that targets are opened and closed, and uses what a
// Target offers besides its HCAs: Live, Impair, Capture, Wire, SetLink and Probe. Each target has another socket for
// the protocol of package kproxy/native. A process serves the targets of a worker one after another, and ends with the
// worker.
//
// If the process ends, all verbs fail at once, the case ends, and Target.Exited reports the panic or the exit state,
// which is charged to the case.
//
// # Services
//
// The HCAs implement cmsuite.Host if the driver has special QPs. The cases of that suite then use the daemon's MAD
// services and connection managers, through packages ual/services and kproxy/services. Each HCA has its own, as if it
// were in a host of its own. They exist only while a case uses them, because other cases count the driver's objects.
//
// # What a driver cannot do
//
// The driver has no descriptor of the certifier's results, and no address of the certifier's memory: it cannot write
// results, read the nonce that protects them, or change the code and the bytes with which a case compares. A case sees
// of the driver only the replies and events of package ual, and the memory that it has registered. The output of the
// process is evidence, and never a result.
//
// What the target states besides its HCAs remains the driver's own statement: Live, Impair, Lossless and Probe, and the
// packets of an end of a link within the daemon process. The system also lets processes of one user copy each other's
// memory, which RDMA into a process's own memory uses. A driver that attacks its certifier by means of the system, such
// as process_vm_writev or ptrace, is not excluded.
package through
