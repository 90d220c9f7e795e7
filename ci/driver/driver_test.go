package driver

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/ci"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestNotifierOrder checks that events are delivered in order, one callback at a time, and that completions are
// combined.
func TestNotifierOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []ci.EventType
		gate := make(chan struct{})
		completions := 0
		n := &Notifier{Context: 5, OnEvent: func(e ci.Event) {
			require.Equal(t, 5, e.Context)
			<-gate
			got = append(got, e.Type)
		}, OnCompletion: func(arg any) { require.Equal(t, 5, arg); completions++ }}
		for i := range 10 {
			n.Event(ci.Event{Type: ci.EventType(i)})
		}
		synctest.Wait()
		require.Empty(t, got)
		for range 5 {
			n.Completion()
		}
		close(gate)
		n.Flush()
		require.Equal(t, []ci.EventType{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, got)
		require.Equal(t, 1, completions)
		n.Close()
		n.Event(ci.Event{Type: 1})
		n.Completion()
		synctest.Wait()
		require.Len(t, got, 10)
		require.Equal(t, 1, completions)
		n.Close()
	})
}

// TestNotifierClose waits for the running callback and drops waiting ones.
func TestNotifierClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		ran := 0
		n := &Notifier{OnEvent: func(ci.Event) { ran++; <-gate }}
		n.Event(ci.Event{})
		n.Event(ci.Event{})
		synctest.Wait()
		closed := false
		go func() { n.Close(); closed = true }()
		synctest.Wait()
		require.False(t, closed)
		close(gate)
		synctest.Wait()
		require.True(t, closed)
		require.Equal(t, 1, ran)
	})
	var none Notifier // without callbacks nothing runs
	none.Event(ci.Event{})
	none.Completion()
	require.False(t, none.queued)
	none.Close()
}

// TestNotifierLimit checks that a blocked callback keeps at most maxEvents events, and the failure of the adapter.
func TestNotifierLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		var got []ci.EventType
		n := &Notifier{OnEvent: func(e ci.Event) { <-gate; got = append(got, e.Type) }}
		n.Event(ci.Event{Type: ci.EventPortDown})
		synctest.Wait()
		for range maxEvents + 10 {
			n.Event(ci.Event{Type: ci.EventLIDChange})
		}
		n.Event(ci.Event{Type: ci.EventLocalFatal})
		close(gate)
		n.Flush()
		require.Len(t, got, maxEvents+2)
		require.Equal(t, ci.EventLocalFatal, got[maxEvents+1])
	})
}

// TestVector runs the callbacks of three notifiers in turns: one that never has enough delays none.
func TestVector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var v Vector
		gate := make(chan struct{})
		var order []int
		list := make([]*Notifier, 3)
		for i := range list {
			list[i] = &Notifier{Vector: &v, Context: i}
			list[i].OnCompletion = func(any) {
				<-gate
				order = append(order, i)
				if i == 0 && len(order) < 10 {
					list[0].Completion()
				}
			}
		}
		for _, n := range list {
			n.Completion()
		}
		synctest.Wait()
		require.Empty(t, order)
		close(gate)
		for _, n := range list {
			n.Flush()
			n.Close()
		}
		v.Wait()
		require.Equal(t, []int{0, 1, 2, 0, 0, 0, 0, 0, 0, 0}, order)
	})
}

// TestHandlers delivers each event to each handler, and none after its removal.
func TestHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h Handlers
		var ca Refs
		var mu sync.Mutex
		var got []any
		receive := func(e ci.Event) { mu.Lock(); defer mu.Unlock(); got = append(got, e.Context) }
		h.Open(receive, "open")
		_, err := h.OnEvent(&ca, nil, "nil")
		require.ErrorIs(t, err, ci.InvalidParameter)
		x, err := h.OnEvent(&ca, receive, "one more")
		require.NoError(t, err)
		require.True(t, x.Alive())
		require.ErrorIs(t, ca.BeginDestroy("CA.Destroy", ci.InvalidCAHandle), ci.ResourceBusy)
		h.Event(ci.Event{Type: ci.EventPortDown})
		h.Flush()
		require.ElementsMatch(t, []any{"open", "one more"}, got)
		require.NoError(t, x.Destroy())
		require.False(t, x.Alive())
		require.ErrorIs(t, x.Destroy(), ci.InvalidHandle)
		h.Event(ci.Event{Type: ci.EventPortDown})
		h.Flush()
		require.Len(t, got, 3)
		require.NoError(t, ca.BeginDestroy("CA.Destroy", ci.InvalidCAHandle))
		h.Close()
		h.Event(ci.Event{Type: ci.EventPortDown})
		synctest.Wait()
		require.Len(t, got, 3)
		_, err = h.OnEvent(&ca, receive, nil)
		require.ErrorIs(t, err, ci.InvalidCAHandle)
	})
}

// TestUse has Destroy wait for a verb, after which the object cannot be used.
func TestUse(t *testing.T) {
	keep := errors.New("the hardware keeps it")
	for name, destroy := range map[string]func(r *Refs) error{
		"BeginDestroy": func(r *Refs) error { return r.BeginDestroy("CQ.Destroy", ci.InvalidCQHandle) },
		"DestroyIf": func(r *Refs) error {
			require.ErrorIs(t, r.DestroyIf("CQ.Destroy", ci.InvalidCQHandle, func() error { return keep }), keep)
			require.True(t, r.Alive())
			return r.DestroyIf("CQ.Destroy", ci.InvalidCQHandle, func() error { return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var r Refs
				gate, began := make(chan struct{}), make(chan struct{})
				go func() { // a verb
					if r.Use() {
						close(began)
						<-gate
						r.Done()
					}
				}()
				<-began
				ended := make(chan error, 1)
				go func() { ended <- destroy(&r) }()
				select {
				case err := <-ended:
					require.Fail(t, "a verb is under way", "%v", err)
				default:
				}
				close(gate)
				require.NoError(t, <-ended)
				require.False(t, r.Use())
				require.False(t, r.Get(), "nothing may depend on it from now on")
				require.ErrorIs(t, r.BeginDestroy("CQ.Destroy", ci.InvalidCQHandle), ci.InvalidCQHandle)
				r.Revive()
				require.True(t, r.Use())
				r.Done()
				require.True(t, r.Get())
				require.Equal(t, 1, r.Count())
				require.ErrorIs(t, r.BeginDestroy("CQ.Destroy", ci.InvalidCQHandle), ci.ResourceBusy)
			})
		})
	}
}

// TestGetAll takes all references or none.
func TestGetAll(t *testing.T) {
	list := []*Refs{{}, {}, {}}
	_, ok := GetAll(list...)
	require.True(t, ok)
	PutAll(list)
	require.NoError(t, list[1].BeginDestroy("", 0))
	i, ok := GetAll(list...)
	require.False(t, ok)
	require.Equal(t, 1, i)
	require.Zero(t, list[0].Count())
	require.Zero(t, list[2].Count())
}

// TestPool checks the limit.
func TestPool(t *testing.T) {
	p := Pool{Max: 1}
	require.NoError(t, p.Take("PD.CreateQP"))
	require.ErrorIs(t, p.Take("PD.CreateQP"), ci.InsufficientResources)
	require.Equal(t, 1, p.Count())
	p.Give()
	require.NoError(t, p.Take("PD.CreateQP"))
}

// TestAllocations checks that the delivery of a completion and the use of an object allocate nothing.
func TestAllocations(t *testing.T) {
	var v Vector
	var r Refs
	var ran sync.WaitGroup
	n := &Notifier{OnCompletion: func(any) { ran.Done() }, Vector: &v}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_ = r.Use() && r.Get()
		r.Put()
		r.Done()
	}))
	deliver := func() {
		ran.Add(1)
		n.Completion()
		ran.Wait()
	}
	require.LessOrEqual(t, testing.AllocsPerRun(100, deliver), 2.0, "a goroutine and the queue of the vector")
	n.Close()
	v.Wait()
}
