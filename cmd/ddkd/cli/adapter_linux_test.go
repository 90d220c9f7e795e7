package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/cmd/ddkd/cli"
	"ciddk/cmd/ddkd/software"
	"ciddk/hca/reference"
	"ciddk/hca/reference/userlib"
	"ciddk/kproxy"
	"ciddk/ual"
	"ciddk/ual/services"
)

// churn is a daemon whose adapters are removed and added, in this process.
type churn struct {
	t    *testing.T
	mu   sync.Mutex
	hcas map[string]*reference.HCA // that were opened last, by address
}

func newChurn(t *testing.T, adapters ...string) *churn {
	socket(t)
	c := &churn{t: t, hcas: map[string]*reference.HCA{}}
	driver := software.Driver()
	open := driver.Open
	driver.Open = func(ctx context.Context, s cli.Settings, log *slog.Logger) (ci.HCA, error) {
		h, err := open(ctx, s, log)
		if err == nil {
			c.mu.Lock()
			c.hcas[s["address"]] = h.(*reference.HCA)
			c.mu.Unlock()
		}
		return h, err
	}
	args := []string{"serve", "--drain=10ms"}
	for _, a := range adapters {
		args = append(args, "--adapter", "link=network,address="+a)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan int, 1)
	var log bytes.Buffer
	go func() {
		done <- cli.Run(ctx, cli.Config{Name: "ddkd", Drivers: []cli.Driver{driver}, Stdout: io.Discard,
			Stderr: &log}, args)
	}()
	t.Cleanup(func() {
		stop()
		require.Zero(t, <-done, "%s", &log)
	})
	return c
}

// live returns the number of objects of the adapter that was opened last at an address.
func (c *churn) live(address string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.hcas[address].Live() {
		n += k
	}
	return n
}

// run executes a command and returns its output.
func (c *churn) run(args ...string) string {
	var out, errs bytes.Buffer
	require.Zero(c.t, run(c.t.Context(), args, &out, &errs), "%v: %s", args, errs.String())
	return strings.TrimSpace(out.String())
}

// endpoint is a QP of one process, with memory.
type endpoint struct {
	client  *ual.Client
	guid    string
	ca      ci.CA
	pd      ci.PD
	cq      ci.CQ
	mr      ci.MR
	qp      ci.QP
	fatal   chan struct{} // receives at EventLocalFatal
	objects []ci.Object   // in the order of their creation
}

// newEndpoint opens the adapter with a GUID, "" for the only one.
func newEndpoint(t require.TestingT, c *ual.Client, guid string) *endpoint {
	hcas, err := c.HCAs()
	require.NoError(t, err)
	e := &endpoint{client: c, fatal: make(chan struct{}, 8)}
	for _, h := range hcas {
		if e.guid = fmt.Sprintf("%016x", uint64(h.Info().GUID)); e.guid == guid || guid == "" {
			e.ca, err = h.OpenCA(h.Info().GUID, func(v ci.Event) {
				if v.Type == ci.EventLocalFatal {
					e.fatal <- struct{}{}
				}
			}, nil)
			require.NoError(t, err)
		}
	}
	require.NotNil(t, e.ca, "adapter %s", guid)
	e.pd, err = e.ca.AllocatePD(ci.PDNormal)
	require.NoError(t, err)
	e.cq, err = e.pd.CreateCQ(ci.CQCreate{Size: 64, OnCompletion: func(any) {}})
	require.NoError(t, err)
	e.mr, err = e.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 4096)), Access: ci.LocalWrite})
	require.NoError(t, err)
	e.objects = []ci.Object{e.ca, e.pd, e.cq, e.mr}
	e.newQP(t)
	return e
}

func (e *endpoint) newQP(t require.TestingT) {
	var err error
	e.qp, err = e.pd.CreateQP(ci.QPCreate{SendCQ: e.cq, RecvCQ: e.cq, QPCaps: ci.QPCaps{SendDepth: 16, RecvDepth: 16,
		SendSGE: 1, RecvSGE: 1}})
	require.NoError(t, err)
	e.objects = append(e.objects, e.qp)
}

// quick are a short timeout and few retries.
var quick = ci.ToRTS{AckTimeout: 12, RetryCount: 3, RNRRetry: 7, InitDepth: 1}

// connect connects the QP to that of a peer.
func (e *endpoint) connect(t require.TestingT, peer *endpoint) {
	e.connectTo(t, peer.gid(t), peer.qp.Num(), quick)
}

// gid returns the address of the adapter.
func (e *endpoint) gid(t require.TestingT) ci.GID {
	attr, err := e.ca.Query()
	require.NoError(t, err)
	return attr.Ports[0].GIDs[0].GID
}

// connectTo connects the QP to another one.
func (e *endpoint) connectTo(t require.TestingT, gid ci.GID, num ci.QPN, rts ci.ToRTS) {
	require.NoError(t, e.qp.Modify(ci.ToInit{Port: 1}.For(ci.RC)))
	av := ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{DGID: gid, HopLimit: 64}}
	require.NoError(t, e.qp.Modify(ci.ToRTR{AV: av, MTU: ci.MTU1024, DestNum: num, RespRes: 1,
		MinRNRTimer: 1}.For(ci.RC)))
	require.NoError(t, e.qp.Modify(rts.For(ci.RC)))
}

// transfer sends or receives messages until a verb or a request fails, and returns its error. started is called when
// some have completed.
func (e *endpoint) transfer(send bool, started func()) error {
	wc := make([]ci.WC, 8)
	for n := 0; ; {
		var err error
		if send {
			_, err = e.qp.PostSend([]ci.SendWR{{Op: ci.OpSend, Flags: ci.SendSignaled,
				SGL: []ci.SGE{e.mr.Region().SGE(0, 4096)}}})
		} else {
			_, err = e.qp.PostRecv([]ci.RecvWR{{SGL: []ci.SGE{e.mr.Region().SGE(0, 4096)}}})
		}
		if err != nil {
			return err
		}
		for done := 0; done == 0; {
			if done, err = e.cq.Poll(wc); err != nil {
				return err
			}
			for i := range wc[:done] {
				if err := wc[i].Err(); err != nil {
					return err
				}
			}
		}
		if n++; n == 20 {
			started()
		}
	}
}

// TestAdapterUnderTraffic removes and adds an adapter 20 times while one process sends to it and another one receives
// with it. Each time, the peer's request ends with the error of IBTA for a peer that does not answer, the user of the
// adapter receives EventLocalFatal and errors, nothing is left of its objects, and all clients see the new adapter.
func TestAdapterUnderTraffic(t *testing.T) {
	d := newChurn(t, "10.0.0.1")
	stays := dial(t)
	first := strings.Fields(d.run("adapter", "list"))[3]
	guid := d.run("adapter", "add", "link=network,address=10.0.0.2")
	sender := newEndpoint(t, stays, first)
	svc, err := services.Open(stays)
	require.NoError(t, err)
	var added, removed atomic.Int32 // ports, of PnP events
	unwatch := svc.MAD().Watch(func(_ mads.Port, there bool) {
		if there {
			added.Add(1)
		} else {
			removed.Add(1)
		}
	})
	rounds := 20
	if testing.Short() {
		rounds = 4
	}
	for round := range rounds {
		cfg := ual.Config{Name: "receiver"}
		if round%2 == 0 {
			cfg.Libraries = []*ci.UserLibrary{userlib.New()}
		}
		c, err := ual.Dial(cfg)
		require.NoError(t, err)
		receiver := newEndpoint(t, c, guid)
		sender.connect(t, receiver)
		receiver.connect(t, sender)
		var sent, received error
		var wait, busy sync.WaitGroup
		busy.Add(1)
		wait.Go(func() { received = receiver.transfer(false, busy.Done) })
		wait.Go(func() { sent = sender.transfer(true, func() {}) })
		busy.Wait()

		assert.Equal(t, guid, d.run("adapter", "remove", []string{"10.0.0.2", guid}[round%2]))
		assert.Zero(t, d.live("10.0.0.2"), "objects of the removed adapter")
		wait.Wait()
		require.ErrorIs(t, sent, ci.WCError(ci.WCTimeoutRetryErr), "the peer")
		<-receiver.fatal
		isExpected := errors.Is(received, ci.InvalidState) || errors.Is(received, ci.WCError(ci.WCFlushErr))
		if cfg.Libraries != nil { // the shared memory has the last state of the QP
			isExpected = isExpected || errors.Is(received, ci.InvalidQPState)
		}
		require.True(t, isExpected, "%v", received)
		eventually(t, "the event of the removal", func() bool { return int(removed.Load()) == round+1 })
		_, err = receiver.ca.Query()
		require.ErrorIs(t, err, ci.InvalidState)
		hcas, err := stays.HCAs()
		require.NoError(t, err)
		require.Len(t, hcas, 1)
		if round%4 < 2 { // otherwise Close does it
			for len(receiver.objects) > 0 {
				n := len(receiver.objects) - 1
				require.NoError(t, receiver.objects[n].Destroy())
				receiver.objects = receiver.objects[:n]
			}
		}
		require.NoError(t, c.Close())

		assert.Equal(t, guid, d.run("adapter", "add", "link=network,address=10.0.0.2"), "that of the address")
		hcas, err = stays.HCAs()
		require.NoError(t, err)
		require.Len(t, hcas, 2)
		eventually(t, "the event of the new adapter", func() bool { return int(added.Load()) == 2+round+1 })
		require.NoError(t, sender.qp.Destroy())
		sender.objects = sender.objects[:len(sender.objects)-1]
		sender.newQP(t)
	}
	unwatch()
	require.NoError(t, svc.Close())
	var st kproxy.Status
	text, err := stays.Status()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &st))
	require.Len(t, st.Clients, 1)
	require.NoError(t, stays.Close())
	// No client has used the new adapter: it has the objects of the daemon itself, which it creates after the add.
	eventually(t, "cleanup", func() bool {
		n := d.live("10.0.0.2")
		return n > 0 && d.live("10.0.0.1") == n
	})
}

// TestAdapterCommands checks the commands' output and their mistakes.
func TestAdapterCommands(t *testing.T) {
	d := newChurn(t, "10.0.0.1")
	require.NoError(t, dial(t).Close())
	guid := d.run("adapter", "add", "link=network,address=10.0.0.2")
	var list []map[string]any
	require.NoError(t, json.Unmarshal([]byte(d.run("adapter", "list", "--json")), &list))
	require.Len(t, list, 2)
	assert.Equal(t, map[string]any{"guid": guid, "driver": "software",
		"settings": map[string]any{"link": "network", "address": "10.0.0.2"}}, list[1])
	for _, x := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"add", "colour=red"}, 1, "the driver software has address, " +
			"cnp-interval, fabric, gids, impair, interface"},
		{[]string{"add", "address"}, 2, "key=value"},
		{[]string{"add", "link=network,address=10.0.0.2"}, 1, "10.0.0.2"},
		{[]string{"add", "address=203.0.113.77"}, 1, "address of this machine"},
		{[]string{"remove", "10.0.0.3"}, 1, "no adapter"},
		{[]string{"remove", "network"}, 1, "2 adapters have"},
		{[]string{"remove"}, 2, "adapter"},
	} {
		var errs bytes.Buffer
		args := append([]string{"adapter"}, x.args...)
		assert.Equal(t, x.code, run(t.Context(), args, io.Discard, &errs), "%v: %s", args, errs.String())
		assert.Contains(t, errs.String(), x.want, "%v", args)
	}
	d.run("adapter", "remove", "10.0.0.1")
	d.run("adapter", "remove", "10.0.0.2")
	assert.Equal(t, "[]", d.run("adapter", "list", "--json"))
}
