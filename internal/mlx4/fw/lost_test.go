package fw_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/fw"
	"ciddk/internal/mlx4/prm"
)

// Numbers of event queues.
const (
	asyncEQ = 8 + iota
	commandEQ
	completionEQ
)

// forge appends an entry to an event queue, when there is room.
func forge(t *testing.T, m *model.Model, eqn uint32, set func(e []byte)) {
	var e [32]byte
	set(e[:])
	eventually(t, func() bool { return m.ForgeEvent(eqn, e) }, "room in EQ %d", eqn)
}

// TestLateCompletion completes a command that was given up: its slot can be used again. Completions with the tokens of
// other commands, and of those that have completed, are dropped.
func TestLateCompletion(t *testing.T) {
	t.Parallel() // the command register stays busy until a command has exceeded its time
	m := newModel(t, model.Config{})
	d, err := fw.Open(t.Context(), newFunction(t, m),
		quick(fw.Config{CommandTimeout: stuckTime, WatchInterval: time.Hour}))
	require.NoError(t, err)
	defer func() { assert.ErrorContains(t, d.Close(), "command register is busy") }()
	m.HangCommand(prm.CmdNOP)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, d.Cmd(ctx, prm.CmdNOP, fw.Args{}), context.DeadlineExceeded)
	slots := d.Firmware().MaxCommands
	tokens := 64 * slots // more than the commands so far have had
	forgeTokens := func(n int, late uint64) {
		before := d.Stats()
		for token := range n {
			forge(t, m, commandEQ, func(e []byte) {
				prm.EQEType.Put(e, prm.EventCommand)
				prm.EQEToken.Put(e, uint64(token))
			})
		}
		count := func() (late, bad uint64) {
			s := d.Stats()
			return s.LateCompletions - before.LateCompletions, s.BadEvents - before.BadEvents
		}
		eventually(t, func() bool { late, bad := count(); return late+bad >= uint64(n) }, "%d tokens", n)
		gotLate, gotBad := count()
		assert.Equal(t, late, gotLate)
		assert.Equal(t, uint64(n)-late, gotBad)
	}
	forgeTokens(slots, 0) // the first command of a slot has another generation
	forgeTokens(tokens, 1)
	forgeTokens(tokens, 0)
}

// TestConsumerIndex fills an event queue while its entries are handled. The adapter learns of free entries after 128 at
// the latest.
func TestConsumerIndex(t *testing.T) {
	eachMode(t, func(t *testing.T, c fw.Config) {
		const batch, entries = 128, 1024
		c.LogEQSize, c.CompletionEQs = 10, 1
		m := newModel(t, model.Config{})
		d := open(t, newFunction(t, m), c)
		cqn, err := d.AllocCQ(t.Context())
		require.NoError(t, err)
		event := func(e []byte) { prm.EQECQN.Put(e, uint64(cqn)) }
		started, goOn, end := make(chan struct{}), make(chan struct{}), make(chan bool, 1)
		count := 0
		require.NoError(t, d.HandleCQ(cqn, func() {
			switch count++; count {
			case 1:
				close(started)
				<-goOn
			case batch + 1:
				var e [32]byte
				event(e[:])
				end <- m.ForgeEvent(completionEQ, e)
			}
		}, nil))
		forge(t, m, completionEQ, event)
		<-started
		var e [32]byte
		event(e[:])
		forged := 1
		for m.ForgeEvent(completionEQ, e) {
			forged++
		}
		require.GreaterOrEqual(t, forged, entries-1, "no entry is free before the first one is handled")
		close(goOn)
		require.True(t, <-end, "an entry is free after %d", batch)
		d.ReleaseCQ(cqn)
	})
}

// TestMaskedInterrupts masks the interrupt of asynchronous events, or that of completions. The driver finds the events
// nevertheless.
func TestMaskedInterrupts(t *testing.T) {
	eachMode(t, func(t *testing.T, c fw.Config) {
		c.WatchInterval = 20 * time.Millisecond
		m := newModel(t, model.Config{})
		d := open(t, newFunction(t, m), c)
		r := record(d)
		require.NoError(t, d.InitPort(t.Context(), 1))
		const rounds = 3
		var errors, completions, drained atomic.Int32
		cqn, err := d.AllocCQ(t.Context())
		require.NoError(t, err)
		require.NoError(t, d.HandleCQ(cqn, func() { completions.Add(1) }, func(fw.Event) { errors.Add(1) }))
		qpn, err := d.AllocQPs(t.Context(), 1, 1)
		require.NoError(t, err)
		require.NoError(t, d.HandleQP(qpn, func(fw.Event) { drained.Add(1) }))
		for i := range int32(rounds) {
			m.LoseInterrupts(0, 1<<30)
			forge(t, m, asyncEQ, func(e []byte) {
				prm.EQEType.Put(e, prm.EventCQError)
				prm.EQECQErrCQN.Put(e, uint64(cqn))
			})
			forge(t, m, asyncEQ, func(e []byte) {
				prm.EQEType.Put(e, prm.EventSQDrained)
				prm.EQEQPN.Put(e, uint64(qpn))
			})
			require.NoError(t, m.SetLink(1, i%2 != 0))
			eventually(t, func() bool {
				return errors.Load() == i+1 && drained.Load() == i+1 &&
					r.count(prm.EventPortChange, prm.PortChangeDown) == int(i)/2+1
			}, "asynchronous events, round %d", i)
			m.LoseInterrupts(1, 1<<30)
			forge(t, m, completionEQ, func(e []byte) { prm.EQECQN.Put(e, uint64(cqn)) })
			eventually(t, func() bool { return completions.Load() == i+1 }, "completions, round %d", i)
		}
		d.ReleaseCQ(cqn)
		d.ReleaseQP(qpn)
		assert.Zero(t, r.count(prm.EventEQOverflow, 0))
	})
}
