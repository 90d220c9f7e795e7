package nvmet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/rdmacm"
	"ciddk/link/impair"
	"ciddk/rdmatest"
)

// logBuffer collects a log.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// withTarget runs f in a bubble with a target and a host.
func withTarget(t *testing.T, n rdmatest.Config, cfg Config, f func(t *testing.T, target *Target, h host,
	log *logBuffer)) {
	synctest.Test(t, func(t *testing.T) {
		net := rdmatest.New(t, n, "target", "host")
		log := &logBuffer{}
		cfg.NQN, cfg.Logger = subsystem, slog.New(slog.NewTextHandler(log, nil))
		if cfg.Backend == nil {
			cfg.Backend = NewRAM(1 << 20)
		}
		server := net.Host("target")
		target, err := Listen(server.Manager, server.AddrPort(Port), cfg)
		require.NoError(t, err)
		f(t, target, host{net.Host("host").Manager, target.Addr()}, log)
		require.NoError(t, target.Close())
		assert.Zero(t, target.held)
		assert.Empty(t, target.controllers)
	})
}

// settle lets a second of the bubble's time pass, in which all packets arrive.
func settle() { time.Sleep(time.Second) }

// TestSession has a host discover the subsystem, connect two I/O queues, and write and read blocks in all ways.
func TestSession(t *testing.T) {
	for name, faults := range map[string]impair.Model{"good": {}, "bad": {Drop: 0.02, Duplicate: 0.02, Reorder: 0.02}} {
		t.Run(name, func(t *testing.T) {
			withTarget(t, rdmatest.Config{Seed: 1, Faults: faults}, Config{}, testSession)
		})
	}
}

func testSession(t *testing.T, target *Target, h host, _ *logBuffer) {
	discovery, _ := h.connect(t, 0, dynamicID, DiscoveryNQN, 0)
	p := make([]byte, 2*recordLen)
	_, s := discovery.keyed(t, newCommand(opGetLog, 0, 10, logDiscovery|511<<16), descKeyed, p)
	require.Equal(t, statusOK, s)
	assert.EqualValues(t, 1, binary.LittleEndian.Uint64(p[8:]))
	assert.Equal(t, []byte{1, 1, 2}, p[1024:1027])
	nqn, _ := text(p[1024+256:])
	assert.Equal(t, subsystem, nqn)
	assert.Equal(t, target.Addr().Addr().String(), strings.TrimRight(string(p[1024+512:1024+768]), " "))
	discovery.close(t)

	admin, id := h.connect(t, 0, dynamicID, subsystem, 120000)
	p = make([]byte, pageLen)
	_, s = admin.keyed(t, newCommand(opIdentify, 0, 10, identifyController), descKeyedInvalidate, p)
	require.Equal(t, statusOK, s)
	assert.Equal(t, id, binary.LittleEndian.Uint16(p[78:]))
	_, s = admin.keyed(t, newCommand(opIdentify, 0, 10, identifyList), descKeyedInvalidate, p)
	require.Equal(t, statusOK, s)
	assert.Equal(t, []byte{1, 0, 0, 0, 0, 0, 0, 0}, p[:8])
	_, s = admin.keyed(t, newCommand(opIdentify, 1, 10, identifyNamespace), descKeyedInvalidate, p)
	require.Equal(t, statusOK, s)
	assert.EqualValues(t, 2048, binary.LittleEndian.Uint64(p))
	_, s = admin.keyed(t, newCommand(opIdentify, 1, 10, identifyDescriptors), descKeyedInvalidate, p)
	require.Equal(t, statusOK, s)
	assert.Equal(t, []byte{2, 16}, p[:2])
	assert.Equal(t, []byte{3, 16}, p[20:22])
	counts, s := admin.do(t, newCommand(opSetFeatures, 0, 10, featureQueues, 11, 0x10001))
	require.Equal(t, statusOK, s)
	require.EqualValues(t, 0x10001, counts)
	admin.send(t, newCommand(opAsyncEvent, 0))
	event := admin.id
	_, s = admin.do(t, newCommand(opKeepAlive, 0))
	require.Equal(t, statusOK, s)

	one, _ := h.connect(t, 1, id, subsystem, 0)
	two, _ := h.connect(t, 2, id, subsystem, 0)
	data := make([]byte, maxTransfer)
	for i := range data {
		data[i] = byte(i / 512 * 7)
	}
	_, s = one.do(t, newCommand(opWrite, 1, 10, 8, 12, 7).inlined(data[:4096]))
	require.Equal(t, statusOK, s)
	_, s = one.keyed(t, newCommand(opWrite, 1, 10, 16, 12, 511|1<<30), descKeyedInvalidate, data)
	require.Equal(t, statusOK, s)
	_, s = one.do(t, newCommand(opFlush, 1))
	require.Equal(t, statusOK, s)
	got := make([]byte, maxTransfer)
	_, s = two.keyed(t, newCommand(opRead, 1, 10, 16, 12, 511), descKeyed, got)
	require.Equal(t, statusOK, s)
	assert.True(t, bytes.Equal(data, got))
	_, s = two.keyed(t, newCommand(opRead, 1, 10, 8, 12, 7), descKeyedInvalidate, got[:4096])
	require.Equal(t, statusOK, s)
	assert.True(t, bytes.Equal(data[:4096], got[:4096]))

	// An abort ends the pending request, whose response comes first.
	admin.send(t, newCommand(opAbort, 0, 10, uint32(event)<<16))
	r := admin.response(t)
	assert.Equal(t, event, binary.LittleEndian.Uint16(r[12:]))
	assert.Equal(t, uint16(abortRequested)<<1, binary.LittleEndian.Uint16(r[14:]))
	assert.Zero(t, binary.LittleEndian.Uint64(admin.response(t)))

	// Without its admin queue, a controller ends.
	admin.close(t)
	_, err := one.c.Recv(t.Context())
	require.ErrorIs(t, err, rdmacm.ErrPeerDisconnected)
	one.close(t)
	two.close(t)
}

// TestStatus has commands end in statuses.
func TestStatus(t *testing.T) {
	withTarget(t, rdmatest.Config{}, Config{}, func(t *testing.T, _ *Target, h host, _ *logBuffer) {
		admin, id := h.connect(t, 0, dynamicID, subsystem, 0)
		data, _ := h.connect(t, 1, id, subsystem, 0)
		discovery, _ := h.connect(t, 0, dynamicID, DiscoveryNQN, 0)
		with := func(c command, at int, b byte) command { c[at] = b; return c }
		for name, x := range map[string]struct {
			q    *hostQueue
			c    command
			want status
		}{
			"opcode":          {admin, newCommand(0x77, 0), invalidOpcode},
			"I/O opcode":      {data, newCommand(0x77, 1), invalidOpcode},
			"fused":           {data, with(newCommand(opRead, 1), 1, 0x41), invalidField},
			"PRP":             {data, with(newCommand(opRead, 1), 1, 0), invalidField},
			"namespace":       {data, newCommand(opRead, 2), invalidNamespace},
			"read of all":     {data, newCommand(opRead, allNamespaces), invalidNamespace},
			"block":           {data, newCommand(opRead, 1, 10, 2048), lbaOutOfRange},
			"blocks":          {data, newCommand(opRead, 1, 10, 2047, 12, 1), lbaOutOfRange},
			"block wraps":     {data, newCommand(opRead, 1, 10, 0xffffffff, 11, 0xffffffff, 12, 1), lbaOutOfRange},
			"too long":        {data, newCommand(opRead, 1, 12, 512), invalidField},
			"short memory":    {data, newCommand(opRead, 1).with(0, 511, 1, descKeyed), sglLengthInvalid},
			"descriptor":      {data, newCommand(opRead, 1).with(0, 512, 1, 0x20), sglTypeInvalid},
			"inline read":     {data, newCommand(opRead, 1).inlined(make([]byte, 512)), sglTypeInvalid},
			"short inline":    {data, newCommand(opWrite, 1).inlined(make([]byte, 511)), sglLengthInvalid},
			"inline length":   {data, newCommand(opWrite, 1).with(0, 512, 0, descInline), sglLengthInvalid},
			"inline offset":   {data, newCommand(opWrite, 1).with(1, 512, 0, descInline), sglOffsetInvalid},
			"identify":        {admin, newCommand(opIdentify, 0, 10, 0x77), invalidField},
			"identify 2":      {admin, newCommand(opIdentify, 2, 10, identifyNamespace), invalidNamespace},
			"describe 2":      {admin, newCommand(opIdentify, 2, 10, identifyDescriptors), invalidNamespace},
			"list":            {admin, newCommand(opIdentify, allNamespaces, 10, identifyList), invalidNamespace},
			"namespaces":      {discovery, newCommand(opIdentify, 1, 10, identifyNamespace), invalidField},
			"log":             {admin, newCommand(opGetLog, 0, 10, logDiscovery), invalidLogPage},
			"health":          {discovery, newCommand(opGetLog, 0, 10, logHealth), invalidLogPage},
			"log offset":      {admin, newCommand(opGetLog, 0, 10, logHealth, 12, 516), invalidField},
			"log length":      {admin, newCommand(opGetLog, 0, 10, logHealth, 11, 0xffff), invalidField},
			"feature":         {admin, newCommand(opGetFeatures, 0, 10, 0x77), invalidField},
			"set feature":     {admin, newCommand(opSetFeatures, 0, 10, featureCache), invalidField},
			"queues":          {admin, newCommand(opSetFeatures, 0, 10, featureQueues, 11, 0xffff), invalidField},
			"discovery queue": {discovery, newCommand(opSetFeatures, 0, 10, featureQueues), invalidField},
			"property":        {admin, newCommand(opFabrics, typePropertyGet, 11, 0x30), invalidField},
			"property size":   {admin, newCommand(opFabrics, typePropertyGet, 11, propCAP), invalidField},
			"set property":    {admin, newCommand(opFabrics, typePropertySet, 11, propCSTS), invalidField},
			"fabrics":         {admin, newCommand(opFabrics, 0x77), invalidOpcode},
			"fabrics I/O":     {data, newCommand(opFabrics, typePropertyGet, 11, propVS), invalidOpcode},
		} {
			_, s := x.q.do(t, x.c)
			assert.Equal(t, x.want, s, name)
		}
		for feature, want := range map[uint32]uint64{featureCache: 1, featureQueues: 0x70007, featureEvents: 0,
			featureKeepAlive: 120000} {
			v, s := admin.do(t, newCommand(opGetFeatures, 0, 10, feature))
			assert.Equal(t, statusOK, s)
			assert.Equal(t, want, v, feature)
		}
		for range maxEvents {
			admin.send(t, newCommand(opAsyncEvent, 0))
			settle()
		}
		_, s := admin.do(t, newCommand(opAsyncEvent, 0))
		assert.Equal(t, eventLimitExceeded, s)
		again := newCommand(opKeepAlive, 0)
		admin.id -= 2 // that of a pending request
		_, s = admin.do(t, again)
		assert.Equal(t, commandIDConflict, s)

		// A controller that is disabled has no I/O queues.
		admin.id += 10
		_, s = admin.do(t, newCommand(opFabrics, typePropertySet, 11, propCC, 12, ccShutdown))
		require.Equal(t, statusOK, s)
		v, s := admin.do(t, newCommand(opFabrics, typePropertyGet, 11, propCSTS))
		require.Equal(t, statusOK, s)
		assert.EqualValues(t, cstsShutdownComplete, v)
		_, s = admin.do(t, newCommand(opIdentify, 0, 10, identifyController))
		assert.Equal(t, sequenceError, s)
		_, err := data.c.Recv(t.Context())
		require.ErrorIs(t, err, rdmacm.ErrPeerDisconnected)
		for _, q := range []*hostQueue{data, admin, discovery} {
			q.close(t)
		}
	})
}

// TestConnect has Connect commands that are invalid, in turn, and a valid one after them.
func TestConnect(t *testing.T) {
	withTarget(t, rdmatest.Config{}, Config{}, func(t *testing.T, _ *Target, h host, _ *logBuffer) {
		owner, id := h.connect(t, 0, dynamicID, subsystem, 0)
		off, offID := h.connect(t, 0, dynamicID, subsystem, 0)
		_, s := off.do(t, newCommand(opFabrics, typePropertySet, 11, propCC))
		require.Equal(t, statusOK, s)
		admin, data := h.open(t, 0), h.open(t, 1)
		_, s = admin.do(t, newCommand(opKeepAlive, 0))
		require.Equal(t, sequenceError, s)
		long, finder := strings.Repeat("a", nqnLen), DiscoveryNQN+"\x00"
		for name, x := range map[string]struct {
			q      *hostQueue
			change func(c command, data page)
			want   status
			offset uint64
		}{
			"format":          {admin, func(c command, _ page) { c[40] = 1 }, incompatibleFormat, 0},
			"queue":           {admin, func(c command, _ page) { c[42] = 1 }, connectInvalid, 42},
			"entries":         {admin, func(c command, _ page) { c[44] = 32 }, connectInvalid, 44},
			"one entry":       {admin, func(c command, _ page) { c[44] = 0 }, connectInvalid, 44},
			"subsystem":       {admin, func(_ command, d page) { d[256]++ }, connectInvalid, isData | 256},
			"no end":          {admin, func(_ command, d page) { copy(d[256:], long) }, connectInvalid, isData | 256},
			"host":            {admin, func(_ command, d page) { d[512] = 0 }, connectInvalid, isData | 512},
			"static":          {admin, func(_ command, d page) { d.u16(16, 1) }, connectInvalid, isData | 16},
			"controller":      {data, func(_ command, d page) { d.u16(16, 77) }, connectInvalid, isData | 16},
			"other host":      {data, func(_ command, d page) { d[520]++ }, connectInvalid, isData | 16},
			"other host ID":   {data, func(_ command, d page) { d[0]++ }, connectInvalid, isData | 16},
			"discovery":       {data, func(_ command, d page) { copy(d[256:], finder) }, connectInvalid, isData | 256},
			"not enabled":     {data, func(_ command, d page) { d.u16(16, offID) }, sequenceError, 0},
			"queue elsewhere": {data, func(c command, _ page) { c[42] = 2 }, connectInvalid, 42},
		} {
			queue, controller := uint16(0), uint16(dynamicID)
			if x.q == data {
				queue, controller = 1, id
			}
			c, d := connectCommand(queue, 32, controller, subsystem, 0)
			x.change(c, d)
			result, s := x.q.keyed(t, c, descKeyedInvalidate, d)
			assert.Equal(t, x.want, s, name)
			assert.Equal(t, x.offset, result, name)
		}
		// The data of an I/O queue's Connect may be in the capsule.
		c, d := connectCommand(1, 32, id, subsystem, 0)
		_, s = data.do(t, append(c.with(0, len(d), 0, descInline), d...))
		require.Equal(t, statusOK, s)
		_, s = data.do(t, append(c.with(0, len(d), 0, descInline), d...))
		require.Equal(t, sequenceError, s)
		second := h.open(t, 1)
		_, s = second.do(t, append(c.with(0, len(d), 0, descInline), d...))
		require.Equal(t, sequenceError, s)
		for _, q := range []*hostQueue{owner, off, admin, data, second} {
			q.close(t)
		}
	})
}

// TestReject has requests whose private data is invalid, and one more than the memory suffices for.
func TestReject(t *testing.T) {
	first := connectRequest{queue: 0, recvSize: 32, sendSize: 31}
	cfg := Config{Memory: queueCost(first) + 1, Queues: 2}
	withTarget(t, rdmatest.Config{}, cfg, func(t *testing.T, target *Target, h host, _ *logBuffer) {
		q := h.open(t, 0)
		format := private(0, 32, 31)
		format[0] = 1
		for name, x := range map[string]struct {
			private []byte
			reason  uint16
		}{
			"format":       {format, rejectFormat},
			"queue":        {private(3, 32, 31), rejectQueueID},
			"send queue":   {private(0, 32, 128), rejectSendSize},
			"no send":      {private(0, 32, 0), rejectSendSize},
			"no receive":   {private(0, 0, 31), rejectRecvSize},
			"other memory": {private(0, 32, 31), rejectResources},
		} {
			_, err := h.dial(t.Context(), x.private)
			rejected, ok := errors.AsType[*cm.RejectError](err)
			require.True(t, ok, "%s: %v", name, err)
			assert.Equal(t, x.reason, binary.LittleEndian.Uint16(rejected.Private[2:]), name)
		}
		q.close(t)
		settle()
		h.open(t, 0).close(t)
	})
}

// TestEnds has connections end by a host's mistake or silence. Each has its reason in the log.
func TestEnds(t *testing.T) {
	for name, x := range map[string]struct {
		reason string
		f      func(t *testing.T, h host) *hostQueue
	}{
		"short capsule": {"a capsule has 63 bytes", func(t *testing.T, h host) *hostQueue {
			q := h.open(t, 0)
			require.NoError(t, q.c.Send(t.Context(), make([]byte, commandLen-1)))
			return q
		}},
		"long capsule": {"the QP failed", func(t *testing.T, h host) *hostQueue {
			q, _ := h.connect(t, 0, dynamicID, subsystem, 0)
			require.NoError(t, q.c.Send(t.Context(), make([]byte, capsuleLen+1)))
			return q
		}},
		"bad key": {"remote access", func(t *testing.T, h host) *hostQueue {
			q, id := h.connect(t, 0, dynamicID, subsystem, 0)
			data, _ := h.connect(t, 1, id, subsystem, 0)
			t.Cleanup(func() { q.close(t) })
			require.NoError(t, data.c.Send(t.Context(), newCommand(opRead, 1).with(0, 512, 77, descKeyed)))
			return data
		}},
		"no Connect": {"has not sent Connect", func(t *testing.T, h host) *hostQueue { return h.open(t, 0) }},
		"no keep alive": {"keep alive", func(t *testing.T, h host) *hostQueue {
			q, _ := h.connect(t, 0, dynamicID, subsystem, 5000)
			for range 3 {
				time.Sleep(4 * time.Second) // virtual time
				_, s := q.do(t, newCommand(opKeepAlive, 0))
				require.Equal(t, statusOK, s)
			}
			return q
		}},
		"silence": {"keep alive", func(t *testing.T, h host) *hostQueue {
			q, _ := h.connect(t, 0, dynamicID, subsystem, 0)
			return q
		}},
	} {
		t.Run(name, func(t *testing.T) {
			withTarget(t, rdmatest.Config{}, Config{}, func(t *testing.T, _ *Target, h host, log *logBuffer) {
				q := x.f(t, h)
				_, err := q.c.Recv(t.Context())
				require.ErrorIs(t, err, rdmacm.ErrEnded)
				q.close(t)
				settle()
				assert.Contains(t, log.String(), x.reason)
			})
		})
	}
}

// badDisk is a Backend whose operations fail.
type badDisk struct{ RAM }

var errDisk = errors.New("broken")

func (*badDisk) ReadAt([]byte, int64) (int, error)  { return 0, errDisk }
func (*badDisk) WriteAt([]byte, int64) (int, error) { return 0, errDisk }
func (*badDisk) Size() int64                        { return 1 << 20 }
func (*badDisk) Sync() error                        { return errDisk }

// TestBadBackend has a back end that fails: each command ends in a status, and the connection stays.
func TestBadBackend(t *testing.T) {
	withTarget(t, rdmatest.Config{}, Config{Backend: &badDisk{}}, func(t *testing.T, _ *Target, h host, _ *logBuffer) {
		admin, id := h.connect(t, 0, dynamicID, subsystem, 0)
		q, _ := h.connect(t, 1, id, subsystem, 0)
		for range 2 * ioBuffers { // failed commands return their buffers
			_, s := q.keyed(t, newCommand(opRead, 1), descKeyedInvalidate, make([]byte, 512))
			require.Equal(t, unrecoveredReadError, s)
		}
		_, s := q.do(t, newCommand(opWrite, 1).inlined(make([]byte, 512)))
		require.Equal(t, writeFault, s)
		_, s = q.do(t, newCommand(opFlush, 1))
		require.Equal(t, writeFault, s)
		q.close(t)
		admin.close(t)
	})
}

// TestTooMany has a host send more commands than its queue has entries.
func TestTooMany(t *testing.T) {
	cfg := Config{NQN: subsystem, Backend: NewRAM(blockLen), Logger: slog.New(slog.DiscardHandler)}
	q, _ := newFakeQueue(t, cfg, 1)
	var buffers []int // commands with data wait for them
	for len(q.buffers) > 0 {
		buffers = append(buffers, <-q.buffers)
	}
	read := newCommand(opRead, 1).with(0, 512, 1, descKeyed)
	for i := range q.entries {
		page(read).u16(2, uint16(i))
		require.NoError(t, q.start(t.Context(), bytes.Clone(read)))
	}
	page(read).u16(2, uint16(q.entries))
	require.ErrorContains(t, q.start(t.Context(), read), "more commands")
	for _, at := range buffers {
		q.buffers <- at
	}
	q.commands.Wait()
}

func TestConfig(t *testing.T) {
	for name, cfg := range map[string]Config{"no name": {Backend: NewRAM(512)}, "no disk": {NQN: "a"},
		"small disk": {NQN: "a", Backend: NewRAM(511)}, "depth": {NQN: "a", Backend: NewRAM(512), Depth: 31},
		"queues": {NQN: "a", Backend: NewRAM(512), Queues: -1}, "discovery": {NQN: DiscoveryNQN, Backend: NewRAM(512)},
		"long name": {NQN: strings.Repeat("a", 224), Backend: NewRAM(512)}} {
		assert.Error(t, cfg.complete(), name)
	}
}

func TestFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "disk")
	_, err := OpenFile(name, 100)
	require.Error(t, err)
	for range 2 { // it keeps its size, and what was written
		f, err := OpenFile(name+"1", 1<<20)
		require.NoError(t, err)
		assert.EqualValues(t, 1<<20, f.Size())
		_, err = f.WriteAt([]byte("data"), 1<<20-4)
		require.NoError(t, err)
		b := make([]byte, 4)
		_, err = f.ReadAt(b, 1<<20-4)
		require.NoError(t, err)
		assert.Equal(t, "data", string(b))
		require.NoError(t, f.Sync())
		require.NoError(t, f.Close())
	}
}
