// Package node gives the containers of a machine RDMA devices. It prepares a claim: a directory that containers mount
// and a CDI device that describes the mounts, the environment and a hook. When a container of the claim is created, the
// hook passes the container's network namespace to the Node, which starts a daemon (ddkd) in it. So the adapters have
// the addresses, routes and rights of the pod, and each claim has a daemon, a socket and a quota of its own. The daemon
// ends with the last container, and starts again with the next one.
//
//	n, err := node.Open(node.Config{Dir: "/var/lib/ddk", CDI: "/var/run/cdi", …})
//	err = n.Serve(ctx)                       // for hooks and Clients
//
//	c := node.Client{Dir: "/var/lib/ddk"}    // in another process
//	err = c.Prepare(node.Claim{ID: uid, Adapters: []string{"interface=eth0"}})
//	…
//	err = c.Unprepare(uid)
//
// All is idempotent. The state is in files, and survives the process: a Node that is opened again finds the claims, and
// daemons that run. It needs no right to copy the memory of programs. Setns, into the network namespace of a pod, needs
// CAP_SYS_ADMIN; a daemon of another user also needs CAP_SETUID, CAP_SETGID, CAP_CHOWN, CAP_DAC_OVERRIDE and CAP_KILL.
//
// Methods of a Node may be called concurrently.
package node
