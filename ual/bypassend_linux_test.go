package ual_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/hca/reference/userlib"
	"ciddk/kproxy"
	"ciddk/ual"
)

// withAndWithout are the libraries of clients: without one, every verb is a message.
var withAndWithout = map[string][]*ci.UserLibrary{"messages": nil, "bypass": {userlib.New()}}

// dataPath is a client that has every kind of queue.
type dataPath struct {
	*pair
	c   *ual.Client
	srq ci.SRQ
	mr  ci.MR
	mw  ci.MW
}

func newDataPath(t *testing.T, r *rig, libraries []*ci.UserLibrary, create ci.CQCreate) *dataPath {
	c, err := ual.New(r.connect(), ual.Config{Name: t.Name(), Libraries: libraries})
	require.NoError(t, err)
	d := &dataPath{pair: newPair(t, r.open(c, nil), create), c: c}
	d.srq, err = d.pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 4, MaxSGE: 1}})
	require.NoError(t, err)
	d.mr, err = d.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 64)),
		Access: ci.LocalWrite | ci.BindWindow})
	require.NoError(t, err)
	d.mw, err = d.pd.CreateMW(ci.MWCreate{Type: ci.MWType1})
	require.NoError(t, err)
	return d
}

// verbs executes every verb of the data path, each in its own way, and returns the errors by name.
func (d *dataPath) verbs() map[string]error {
	e := map[string]error{}
	_, e["Poll"] = d.cq.Poll(make([]ci.WC, 1))
	_, e["Peek"] = d.cq.Peek()
	e["Notify"] = d.cq.Notify(ci.NotifyNext)
	e["NotifyAfter"] = d.cq.NotifyAfter(1)
	_, e["PostSend"] = d.a.PostSend([]ci.SendWR{{Op: ci.OpNop}})
	_, e["PostRecv"] = d.b.PostRecv([]ci.RecvWR{{}})
	_, e["SRQ.PostRecv"] = d.srq.PostRecv([]ci.RecvWR{{}})
	_, e["BindMW"] = d.a.BindMW(1, 0, ci.MWBind{Key: d.mw.Key(), MW: d.mw, MR: d.mr, Addr: d.mr.Region().Addr,
		Length: 8})
	return e
}

// TestDataPathWithoutDaemon ends the daemon's server under clients. Every verb of the data path fails, also those that
// a library executes in shared memory, where nothing changes any more.
func TestDataPathWithoutDaemon(t *testing.T) {
	for name, libraries := range withAndWithout {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, kproxy.Config{})
			d := newDataPath(t, r, libraries, ci.CQCreate{OnCompletion: func(any) {}})
			for verb, err := range d.verbs() {
				require.NoError(t, err, verb)
			}
			r.server.Close()
			require.Eventually(t, func() bool { _, err := d.cq.Poll(make([]ci.WC, 1)); return err != nil }, time.Minute,
				time.Millisecond)
			for verb, err := range d.verbs() {
				assert.ErrorIs(t, err, ual.ErrDisconnected, verb)
				assert.ErrorIs(t, err, ci.InvalidState, verb)
			}
			require.NoError(t, d.c.Close())
		})
	}
}

// TestDataPathOfRemovedAdapter removes the adapter. Every verb of the data path fails.
func TestDataPathOfRemovedAdapter(t *testing.T) {
	for name, libraries := range withAndWithout {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, kproxy.Config{})
			d := newDataPath(t, r, libraries, ci.CQCreate{OnCompletion: func(any) {}})
			require.NoError(t, r.al.Deregister(r.hca.Info().GUID))
			require.Eventually(t, func() bool { _, err := d.cq.Poll(make([]ci.WC, 1)); return err != nil }, time.Minute,
				time.Millisecond)
			for verb, err := range d.verbs() {
				assert.ErrorIs(t, err, ci.InvalidState, verb)
				assert.NotErrorIs(t, err, ual.ErrDisconnected, verb)
				assert.ErrorContains(t, err, "the adapter was removed", verb)
			}
			require.NoError(t, d.c.Close())
		})
	}
}

// TestWaitEnds has goroutines wait for completions without a deadline, when the connection is lost, when the program
// closes it, and when the adapter is removed. Each wait ends with an error.
func TestWaitEnds(t *testing.T) {
	ends := map[string]func(t *testing.T, r *rig, c *ual.Client){
		"daemon": func(_ *testing.T, r *rig, _ *ual.Client) { r.server.Close() },
		"close":  func(t *testing.T, _ *rig, c *ual.Client) { require.NoError(t, c.Close()) },
		"removal": func(t *testing.T, r *rig, _ *ual.Client) {
			require.NoError(t, r.al.Deregister(r.hca.Info().GUID))
		},
	}
	for name, libraries := range withAndWithout {
		for how, end := range ends {
			t.Run(name+" "+how, func(t *testing.T) {
				r := newRig(t, kproxy.Config{})
				c, err := ual.New(r.connect(), ual.Config{Name: t.Name(), Libraries: libraries})
				require.NoError(t, err)
				cq := openThroughAccessLayer(t, c)
				ended := make(chan error, 1)
				go func() {
					_, err := cq.Wait(context.Background(), make([]ci.WC, 1))
					ended <- err
				}()
				end(t, r, c)
				require.ErrorIs(t, <-ended, ci.InvalidState)
				require.NoError(t, c.Close())
			})
		}
	}
}

// openThroughAccessLayer returns a CQ of an access layer in this process over the adapter of a client.
func openThroughAccessLayer(t *testing.T, c *ual.Client) *accesslayer.CQ {
	hcas, err := c.HCAs()
	require.NoError(t, err)
	al := accesslayer.New(accesslayer.Config{PollInterval: -1})
	require.NoError(t, al.Register(hcas[0]))
	t.Cleanup(func() { require.NoError(t, al.Close()) })
	client, err := al.Open(accesslayer.ClientConfig{Name: t.Name()})
	require.NoError(t, err)
	ca, err := client.OpenCA(hcas[0].Info().GUID, func(*accesslayer.CA, ci.Event) {})
	require.NoError(t, err)
	pd, err := ca.NewPD(ci.PDNormal)
	require.NoError(t, err)
	cq, err := pd.NewCQ(ci.CQCreate{Size: 4}, accesslayer.CQHandler{})
	require.NoError(t, err)
	return cq
}
