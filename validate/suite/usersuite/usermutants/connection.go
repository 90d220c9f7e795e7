package usermutants

import (
	"sync"

	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy/native"
	"ciddk/validate/mutant"
	"ciddk/validate/req"
	"ciddk/validate/suite/usersuite"
)

// connection returns proxies with a fault in their connections.
func connection() []mutant.Mutant {
	return []mutant.Mutant{
		fault("user.no-cleanup", req.SAS2_4_15, "the objects of a process remain after its end",
			func() *usersuite.Fault { return &usersuite.Fault{Relay: keepOpen} }),
		fault("user.one-table", req.SAS2_4_10, "all processes have one table of handles", func() *usersuite.Fault {
			x := new(shared)
			return &usersuite.Fault{Relay: x.relay}
		}),
		fault("user.destroy-swallowed", req.SAS2_4_10, "MRs that a process destroys still count as its own",
			func() *usersuite.Fault { return &usersuite.Fault{Relay: keepRegions} }),
	}
}

// both runs the two directions of a relay until they have ended, and closes both connections.
func both(client, daemon *native.Conn, up, down func(from, to *native.Conn)) {
	var wait sync.WaitGroup
	wait.Go(func() {
		up(client, daemon)
		_ = daemon.CloseSend() // it may be closed
	})
	wait.Go(func() {
		down(daemon, client)
		client.Close()
	})
	wait.Wait()
	daemon.Close()
}

// passOn passes messages unchanged.
func passOn(from, to *native.Conn) { usersuite.Pass(from, to, nil) }

// keepRegions answers the destroys of MRs itself.
func keepRegions(client, daemon *native.Conn) {
	both(client, daemon, func(from, to *native.Conn) {
		buf := make([]byte, schema.MaxMessage)
		for {
			n, files, err := from.Recv(buf)
			if err != nil {
				return
			}
			var o schema.Object
			h, body, err := native.ParseHeader(buf[:n])
			if err == nil && h.Command == schema.CmdDestroy && native.Parse(body, &o) == nil &&
				o.Handle.Kind() == schema.KindMR {
				m := native.Append(native.Start(nil), &schema.DestroyReply{})
				h.Reply = true
				_ = native.Finish(m, h) // it is no longer than a message
				err = from.Send(m, nil)
			} else {
				err = to.Send(buf[:n], files)
			}
			usersuite.CloseFiles(files)
			if err != nil {
				return
			}
		}
	}, passOn)
}

// keepOpen passes messages, and does not pass on the end of a client.
func keepOpen(client, daemon *native.Conn) {
	var wait sync.WaitGroup
	wait.Go(func() { usersuite.Pass(client, daemon, nil) })
	wait.Go(func() {
		usersuite.Pass(daemon, client, nil)
		client.Close()
	})
	wait.Wait()
	daemon.Close()
}

// shared is a proxy with one session for all clients: that of the first.
type shared struct {
	mu    sync.Mutex
	first *native.Conn
	hello []byte // the reply to the first Hello
	buf   []byte
}

// relay executes one request at a time, of any client, in the session of the first client.
func (x *shared) relay(client, daemon *native.Conn) {
	defer client.Close()
	x.mu.Lock()
	owner := x.first == nil
	if owner {
		x.first, x.buf = daemon, make([]byte, schema.MaxMessage)
	}
	x.mu.Unlock()
	buf := make([]byte, schema.MaxMessage)
	for {
		n, files, err := client.Recv(buf)
		if err != nil || !x.execute(client, buf[:n]) {
			usersuite.CloseFiles(files)
			break
		}
		usersuite.CloseFiles(files)
	}
	daemon.Close()
}

// execute sends a request in the first session and passes the reply back. It reports false at the end of the session.
func (x *shared) execute(client *native.Conn, m []byte) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	h, _, err := native.ParseHeader(m)
	if err != nil {
		return false
	}
	if h.Command == schema.CmdHello && x.hello != nil {
		reply := append([]byte(nil), x.hello...)
		return native.Finish(reply, native.Header{Command: h.Command, ID: h.ID, Reply: true}) == nil &&
			client.Send(reply, nil) == nil
	}
	if x.first.Send(m, nil) != nil {
		return false
	}
	n, files, err := x.first.Recv(x.buf)
	if err != nil {
		return false
	}
	if h.Command == schema.CmdHello {
		x.hello = append([]byte(nil), x.buf[:n]...)
	}
	err = client.Send(x.buf[:n], files)
	usersuite.CloseFiles(files)
	return err == nil
}
