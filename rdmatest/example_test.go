package rdmatest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"ciddk/accesslayer/rdmacm"
	"ciddk/rdmatest"
)

// serve is the server of the program under test: it answers each message with the same text in capitals, until m is
// closed.
func serve(m *rdmacm.Manager, at netip.AddrPort) error {
	ctx := context.Background()
	ln, err := m.Listen(at, rdmacm.ListenConfig{})
	if err != nil {
		return err
	}
	for {
		request, err := ln.Accept(ctx)
		if err != nil {
			return err
		}
		go func() {
			c, err := request.Accept(ctx)
			if err != nil {
				return
			}
			defer c.Close()
			for err == nil {
				var message []byte
				if message, err = c.Recv(ctx); err == nil {
					err = c.Send(ctx, bytes.ToUpper(message))
				}
			}
		}()
	}
}

// ask is its client: it sends a message and waits for the answer, for 10 seconds at most.
func ask(m *rdmacm.Manager, server netip.AddrPort, message string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := m.Dial(ctx, server)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.Send(ctx, []byte(message)); err != nil {
		return "", err
	}
	answer, err := c.Recv(ctx)
	return string(answer), err
}

// TestProgram tests the program through a partition, and through the death and the restart of its server. It covers
// half a minute and takes a few milliseconds.
func TestProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rdmatest.New(t, rdmatest.Config{Seed: 1}, "server", "client")
		server, client := n.Host("server"), n.Host("client")
		address := server.AddrPort(7174)
		start := func(h *rdmatest.Host) {
			go func() { _ = serve(h.Manager, address) }()
			synctest.Wait() // until the server listens
		}
		start(server)
		check := func(wantAnswer string, wantErr error) {
			t.Helper()
			answer, err := ask(client.Manager, address, "hello")
			if answer != wantAnswer || !errors.Is(err, wantErr) {
				t.Errorf("got %q, %v; want %q, %v", answer, err, wantAnswer, wantErr)
			}
		}
		check("HELLO", nil)

		n.Partition("server", "client")
		check("", context.DeadlineExceeded)
		n.Heal("server", "client")
		check("HELLO", nil)

		n.Kill("server")
		check("", context.DeadlineExceeded)
		start(n.Restart("server"))
		check("HELLO", nil)
	})
}

// An example is a test of a program, here TestProgram, in the file of this example.
func Example() {
	fmt.Println(passes(TestProgram))
	// Output: true
}
