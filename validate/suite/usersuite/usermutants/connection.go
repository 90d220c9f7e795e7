package usermutants

import (
	"sync"

	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy/native"
	"ciddk/validate/mutant"
	"ciddk/validate/suite/usersuite"
)

// connection returns proxies with a fault in their connections.
func connection() []mutant.Mutant {
	return []mutant.Mutant{
		fault("user.no-cleanup", "SAS-2.4-15", "the objects of a process remain after its end",
			func() *usersuite.Fault { return &usersuite.Fault{Relay: keepOpen} }),
		fault("user.destroy-swallowed", "SAS-2.4-10", "MRs that a process destroys still count as its own",
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
