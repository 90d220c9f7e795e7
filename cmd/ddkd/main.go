// Command ddkd is the daemon that owns RDMA adapters and lets the processes of this machine use them, by package ual.
// It needs no privileges: its adapters speak RoCEv2 from UDP sockets.
//
//	ddkd serve --adapter address=192.0.2.1     # until SIGTERM or SIGINT
//	ddkd serve --config /etc/ddkd.yaml
//	ddkd check /etc/ddkd.yaml                  # validates a configuration
//	ddkd status [--watch] [--json]
//	ddkd adapter add address=192.0.2.2         # while the daemon runs
//	ddkd adapter remove 192.0.2.2
//	ddkd adapter list [--json]
//
// docs/ddkd.md is for operators: systemd, containers, Kubernetes, status, metrics and errors. Package
// ciddk/cmd/ddkd/systemd has the units.
//
// # Configuration
//
// The file is YAML. Each of its keys is also a flag of serve, with quota- before those of the quota. Flags take
// precedence, and --adapter adds to the file's adapters.
//
//	socket: /run/ddkd/socket   # clients connect here; also $DDKD_SOCKET
//	mode: "0660"               # of the socket: who may connect
//	group: rdma                # of the socket
//	verbs: /run/ddkd/verbs     # socket for ddkrun, or none; default: that of socket with .verbs appended
//	device-name: mlx5_         # of RDMA devices in programs, without their number; default: rxe_ddk
//	idle: 30m                  # stop when there was no client for this time; default: never
//	drain: 5s                  # time for clients to end their work when the daemon stops
//	metrics: 127.0.0.1:9471    # for Prometheus, or unix:PATH; default: none
//	log: info                  # debug, info, warn, error
//	adapters:
//	  - link: udp              # RoCEv2 over UDP; network: link/sim, a simulated network within the daemon
//	    address: 192.0.2.1     # or interface: eth0, for all its addresses
//	    port: 4791             # impair: 1% makes the link bad, to test programs
//	    user-idle: 200us       # also user-memory, queue-memory: see ddkd serve --help
//	  - link: fabric           # a port of an InfiniBand fabric that ddk-fabric serves on this machine
//	    node: h1               # or h1:2; fabric: its name, or the path of its socket; default: sim
//	quota:                     # of each client; 0: the default in kproxy.Quota
//	  qps: 1024                # also pds, avs, cqs, srqs, mrs, mws, multicast: objects of each kind
//	  event-queues: 16
//	  connections: 1024        # also listeners, agents, ports: objects of the connection manager and the MAD services
//	  services: 16777216       # bytes that these hold, estimated
//	  queues: 268435456        # bytes of all queues, estimated from their sizes
//	  memory: 1073741824       # bytes of registered memory
//	  events: 1024             # that wait in an event queue
//	  pending: 32              # requests in execution
//	max-clients: 100
//	max-clients-per-user: 10
//	copy-memory: own           # who may register memory of its own: own (the daemon's user and root), all, none
//
// # Stopping
//
// After SIGTERM or SIGINT the daemon accepts no connection, sends EventLocalFatal to its clients, waits until they have
// closed their connections, for the time drain at most, and exits with status 0. Verbs of clients that remain return
// ual.ErrDisconnected. With systemd's socket, connections that are made during a restart wait for the next daemon.
//
// Exit status: 0 stopped by a signal, 1 an error, 2 usage.
//
// # Other drivers
//
// The command line is package ciddk/cmd/ddkd/cli. A vendor's daemon is a main function that calls it with the vendor's
// driver.
package main

import (
	"os"

	"ciddk/cmd/ddkd/cli"
	"ciddk/cmd/ddkd/software"
)

func main() {
	os.Exit(cli.Main(cli.Config{
		Name:        "ddkd",
		Description: "A daemon that owns RDMA adapters for the processes of this machine.",
		Drivers:     []cli.Driver{software.Driver()},
	}, os.Args[1:]))
}
