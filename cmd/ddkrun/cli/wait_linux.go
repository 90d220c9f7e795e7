package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"ciddk/kproxy"
	"ciddk/ual"
)

// defaultWait is the time in which a program must listen on the port of --wait-port.
const defaultWait = time.Minute

// reachWithin is reach for a daemon that may not answer yet.
func reachWithin(socket string, wait time.Duration) (d *daemon, err error) {
	for end := time.Now().Add(wait); ; time.Sleep(startPoll) {
		d, err = reach(socket)
		if err == nil || errors.Is(err, errVersion) || time.Now().After(end) {
			return d, err
		}
	}
}

// awaitPort waits until a program listens on a port: a TCP port of this network namespace, or one of the connection
// manager of a daemon. It makes no connection, since the program would take it for that of its client.
func awaitPort(d *daemon, port uint, wait time.Duration) error {
	c, err := ual.Dial(ual.Config{Path: strings.TrimSuffix(d.socket, verbsSuffix), Name: "ddkrun --wait-port"})
	if err != nil {
		return err
	}
	defer c.Close()
	for end := time.Now().Add(wait); ; time.Sleep(startPoll) {
		text, err := c.Status()
		if err != nil {
			return err
		}
		if isListener(text, port) || hasTCPListener(port) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("no program listens on port %d after %v", port, wait)
		}
	}
}

// isListener reports whether a client listens on a port, according to the status of its daemon.
func isListener(status []byte, port uint) bool {
	var s kproxy.Status
	if json.Unmarshal(status, &s) != nil {
		return false
	}
	for _, c := range s.Clients {
		for _, text := range c.Services {
			if strings.HasPrefix(text, "listener: rdma-") && strings.HasSuffix(text, fmt.Sprintf(":%d", port)) {
				return true
			}
		}
	}
	return false
}

// hasTCPListener reports whether a TCP socket of the thread's network namespace listens on a port (proc(5)).
func hasTCPListener(port uint) bool {
	const local, state, listen = 1, 3, "0A"
	for _, table := range []string{"tcp", "tcp6"} {
		b, _ := os.ReadFile("/proc/thread-self/net/" + table) // there is no tcp6 without IPv6
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) > state && f[state] == listen && strings.HasSuffix(f[local], fmt.Sprintf(":%04X", port)) {
				return true
			}
		}
	}
	return false
}
