package usersuite

import (
	"os"
	"sync"

	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy/native"
)

// Relay passes the messages between a client and the daemon unchanged. onRequest, if not nil, is called for each
// request before it is passed on. Relay returns when both directions have ended, and closes both connections.
func Relay(client, daemon *native.Conn, onRequest func(schema.Command)) {
	var wait sync.WaitGroup
	wait.Go(func() {
		Pass(client, daemon, onRequest)
		_ = daemon.CloseSend() // it may be closed
	})
	wait.Go(func() {
		Pass(daemon, client, nil)
		client.Close()
	})
	wait.Wait()
	daemon.Close()
}

// Pass passes messages in one direction until one of the connections ends.
func Pass(from, to *native.Conn, onRequest func(schema.Command)) {
	buf := make([]byte, schema.MaxMessage)
	for {
		n, files, err := from.Recv(buf)
		if err != nil {
			return
		}
		if h, _, err := native.ParseHeader(buf[:n]); err == nil && onRequest != nil {
			onRequest(h.Command)
		}
		err = to.Send(buf[:n], files)
		CloseFiles(files)
		if err != nil {
			return
		}
	}
}

// CloseFiles closes the descriptors of a message.
func CloseFiles(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
