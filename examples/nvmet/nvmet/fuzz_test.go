package nvmet

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/rdmacm"
	"ciddk/ci"
	"ciddk/clock"
)

// fakeTransport counts responses. The memory of the host contains memory, again and again.
type fakeTransport struct {
	q      *queue
	memory []byte

	mu        sync.Mutex
	responses int
}

func (f *fakeTransport) Send(_ context.Context, b []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.responses++
	if len(b) != responseLen {
		return errors.New("the length of a response")
	}
	return nil
}

func (f *fakeTransport) SendInvalidate(ctx context.Context, b []byte, _ ci.Key) error {
	return f.Send(ctx, b)
}

func (f *fakeTransport) ReadInto(_ context.Context, _ *rdmacm.Memory, off, n int, from rdmacm.Region) error {
	if uint64(n) > from.Length {
		return errors.New("beyond the memory")
	}
	for b := f.q.data[off : off+n]; len(b) > 0; {
		b = b[copy(b, f.memory):]
	}
	return nil
}

func (f *fakeTransport) WriteFrom(_ context.Context, to rdmacm.Region, _ *rdmacm.Memory, off, n int) error {
	if uint64(n) > to.Length || off+n > len(f.q.data) {
		return errors.New("beyond the memory")
	}
	return nil
}

// newFakeQueue returns a queue of a new target, connected if id is not 0.
func newFakeQueue(t *testing.T, cfg Config, id uint16) (*queue, *fakeTransport) {
	require.NoError(t, cfg.complete())
	target := newTarget(cfg, clock.Real())
	c, data := connectCommand(0, 32, dynamicID, cfg.NQN, 0)
	f := &fakeTransport{memory: data}
	admin := newQueue(target, f, connectRequest{recvSize: 32, sendSize: 31}, cfg.Logger)
	q := admin
	if id != 0 {
		q = newQueue(target, f, connectRequest{queue: id, recvSize: 32, sendSize: 31}, cfg.Logger)
	}
	for _, x := range []*queue{admin, q} {
		x.cancel = func(err error) { require.NoError(t, err) }
	}
	t.Cleanup(admin.leave)
	if f.q = admin; id == 0 {
		return q, f
	}
	c = c.with(0, len(data), 1, descKeyed)
	require.NoError(t, admin.start(t.Context(), c))
	admin.commands.Wait()
	admin.ctrl.configure(ccEnable)
	f.q, q.ctrl, f.responses = q, admin.ctrl, 0
	return q, f
}

// FuzzCapsules sends capsules to a queue. Each has one response, or is pending, and all data buffers come back. Each
// capsule in the input comes after its length.
func FuzzCapsules(f *testing.F) {
	seed := func(commands ...command) (b []byte) {
		for i, c := range commands {
			page(c).u16(2, uint16(i))
			b = append(binary.LittleEndian.AppendUint16(b, uint16(len(c))), c...)
		}
		return b
	}
	connect, data := connectCommand(0, 32, dynamicID, subsystem, 0)
	connect = connect.with(0, len(data), 1, descKeyedInvalidate)
	keyed := func(c command) command { return c.with(0, 1<<20, 7, descKeyedInvalidate) }
	enable := newCommand(opFabrics, typePropertySet, 11, propCC, 12, ccEnable)
	f.Add(uint8(0), seed(newCommand(opKeepAlive, 0), connect, enable, newCommand(opAsyncEvent, 0),
		newCommand(opAbort, 0, 10, 3<<16), keyed(newCommand(opIdentify, 1, 10, identifyController)),
		newCommand(opGetFeatures, 0, 10, featureQueues), newCommand(opSetFeatures, 0, 10, featureEvents)))
	f.Add(uint8(0), seed(connect, enable, keyed(newCommand(opIdentify, 1, 10, identifyNamespace)),
		keyed(newCommand(opGetLog, 0, 10, logHealth|511<<16)),
		keyed(newCommand(opIdentify, 1, 10, identifyDescriptors))))
	f.Add(uint8(1), seed(keyed(newCommand(opRead, 1, 12, 7)), keyed(newCommand(opWrite, 1, 12, 7)),
		newCommand(opFlush, 1), newCommand(opWrite, 1).inlined(make([]byte, 512))))
	f.Fuzz(func(t *testing.T, id uint8, b []byte) {
		cfg := Config{NQN: subsystem, Backend: NewRAM(64 << 10), Logger: slog.New(slog.DiscardHandler)}
		q, transport := newFakeQueue(t, cfg, uint16(id)%3)
		started := 0
		for len(b) > 2 {
			n := min(int(binary.LittleEndian.Uint16(b)), len(b)-2, capsuleLen)
			if err := q.start(t.Context(), b[2:2+n]); err != nil {
				require.Less(t, n, commandLen)
				break
			}
			b = b[2+n:]
			q.commands.Wait()
			started++
		}
		require.Equal(t, started, transport.responses+len(q.pending))
		require.Len(t, q.busy, len(q.pending))
		require.Len(t, q.buffers, cap(q.buffers))
	})
}
