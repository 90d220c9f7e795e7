package server_test

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/internal/memfd"
	"ciddk/internal/rings"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
	"ciddk/mad"
)

// script is a sequence of choices: the bytes of a fuzz input. Without further bytes, every choice is 0.
type script struct{ b []byte }

func (s *script) take() int {
	if len(s.b) == 0 {
		return 0
	}
	n := s.b[0]
	s.b = s.b[1:]
	return int(n)
}

// pick returns one element of a list.
func pick[T any](s *script, list []T) (t T) {
	if len(list) == 0 {
		return t
	}
	return list[s.take()%len(list)]
}

// number returns a small number most of the time.
func (s *script) number() uint64 {
	switch n := s.take(); {
	case n < 200:
		return uint64(n % 8)
	case n < 230:
		return uint64(s.take())<<8 | uint64(s.take())
	case n < 245:
		return 1 << (s.take() % 64)
	default:
		return 1<<(s.take()%64+1) - 1
	}
}

// arena is memory of this process that sequences may register: no other memory is in danger. The pages before and
// behind it cannot be accessed.
type arena struct {
	b    []byte
	addr uint64
}

const arenaPages = 16

func newArena(t testing.TB) *arena {
	page := os.Getpagesize()
	all, err := unix.Mmap(-1, 0, (arenaPages+2)*page, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(all)) })
	b := all[page : page+arenaPages*page]
	require.NoError(t, unix.Mprotect(b, unix.PROT_READ|unix.PROT_WRITE))
	return &arena{b: b, addr: ci.Bytes(b).Addr()}
}

// sequence is a client that executes a script.
type sequence struct {
	*client
	script
	arena   *arena
	guid    ci.GUID
	gid     ci.GID
	handles []schema.Handle
	keys    []ci.Key
	nums    []ci.QPN
	waiting int // requests without a reply

	requests []schema.Command // that verb chooses from
}

// verbs and services are the commands of the verbs, except those of the data path, and of the services.
var verbs, services = func() (verbs, services []schema.Command) {
	for c := schema.CmdListHCAs; c < schema.NumCommands; c++ {
		switch {
		case schema.Commands[c].Data:
		case c == schema.CmdServeCopies || c < schema.CmdOpenServices:
			verbs = append(verbs, c)
		default:
			services = append(services, c)
		}
	}
	return verbs, append(services, schema.CmdDestroy)
}()

// step executes the next command of the script.
func (q *sequence) step() {
	const connect, postSend, postRecv, poll, small = 200, 210, 220, 228, 236
	switch n := q.take(); {
	case n >= small:
		q.data(pick(&q.script, []schema.Command{schema.CmdNotify, schema.CmdPeek, schema.CmdBindMW}))
	case n >= poll:
		cq := q.handle(schema.KindCQ)
		q.request(schema.CmdPoll, native.AppendPoll(nil, cq, int(q.number()%2048)), nil)
	case n >= postRecv:
		q.postRecv()
	case n >= postSend:
		q.postSend()
	case n >= connect:
		q.connect()
	default:
		q.verb(pick(&q.script, q.requests))
	}
}

// verb executes a verb with arguments of the script.
func (q *sequence) verb(c schema.Command) {
	spec := &schema.Commands[c]
	v := reflect.New(spec.Request)
	q.fill(v.Elem(), "", "")
	var files []*os.File
	for range q.take() % 16 % 3 { // none most of the time
		if f := q.file(); f != nil {
			files = append(files, f)
		}
	}
	if m, ok := reflect.TypeAssert[*schema.RegisterMR](v); ok && m.Memory.Shared && len(files) == 0 {
		files = append(files, q.file())
	}
	q.request(c, native.Append(nil, v.Interface()), files)
	native.CloseFiles(files)
}

// data executes a verb of the data path with a request of fixed size.
func (q *sequence) data(c schema.Command) {
	v := reflect.New(schema.Commands[c].Request)
	q.fill(v.Elem(), "", "")
	q.request(c, native.Append(nil, v.Interface()), nil)
}

// file returns a descriptor that a client may send, or must not.
func (q *sequence) file() *os.File {
	size := arenaPages * os.Getpagesize()
	var f *os.File
	var err error
	switch q.take() % 4 {
	case 0, 1:
		f, err = memfd.Create("sequence", size)
	case 2:
		var fd int
		if fd, err = unix.MemfdCreate("not sealed", 0); err == nil {
			f = os.NewFile(uintptr(fd), "not sealed")
		}
	default:
		f, err = os.Open(os.DevNull)
	}
	require.NoError(q.r.t, err)
	return f
}

// fill sets a field.
func (q *sequence) fill(v reflect.Value, name, tag string) {
	switch x := v.Addr().Interface().(type) {
	case *schema.Handle:
		kind, option, _ := strings.Cut(tag, ",")
		k, _ := schema.KindNamed(kind)
		if *x = q.handle(k); option == "optional" && q.take()%4 == 0 {
			*x = 0
		}
		return
	case *schema.Memory:
		q.memory(x)
		return
	case *schema.UserBuffer:
		q.user(x)
		return
	case *ci.GUID:
		*x = q.guid
		return
	case *ci.GID:
		*x = q.gid
		return
	case *ci.Key:
		*x = pick(&q.script, q.keys)
		return
	case *ci.QPN:
		*x = pick(&q.script, q.nums)
		return
	case *schema.PortID:
		*x = schema.PortID{CA: q.guid, Num: 1}
		return
	case *schema.CMPath:
		*x = q.path()
		return
	case *schema.MADAddress:
		*x = schema.MADAddress{AV: q.path().AV, QPN: 1, QKey: ci.QKey(mad.QKeyGSI)}
		return
	}
	q.fillKind(v, name)
}

// fillKind is fill for fields without a meaning of their own.
func (q *sequence) fillKind(v reflect.Value, name string) {
	isPad := name == "Reserved" || strings.HasPrefix(name, "Pad")
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(q.take()%2 == 1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if n := q.number(); !isPad {
			v.SetUint(n & (1<<v.Type().Bits() - 1))
		}
	case reflect.Int32, reflect.Int64:
		shift := 64 - v.Type().Bits()
		v.SetInt(int64(q.number()) << shift >> shift)
	case reflect.String:
		v.SetString("adapter list")
	case reflect.Slice:
		n := q.take() % 5
		if v.Type().Elem().Kind() == reflect.Uint8 {
			n = []int{0, 1, 64, 92, 256}[n] // up to a MAD
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range min(n, 8) {
			q.fill(v.Index(i), "", "any")
		}
	case reflect.Array:
		for i := range min(v.Len(), 8) {
			if !isPad {
				q.fill(v.Index(i), "", "")
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			q.fill(v.Field(i), f.Name, f.Tag.Get("handle"))
		}
	}
}

// handle returns a handle: of the kind, most of the time.
func (q *sequence) handle(k schema.Kind) schema.Handle {
	if q.take()%16 == 15 {
		return pick(&q.script, append([]schema.Handle{1, schema.MakeHandle(k, 1, 1<<31)}, q.handles...))
	}
	var fits []schema.Handle
	for _, h := range q.handles {
		if k == schema.KindNone || h.Kind() == k {
			fits = append(fits, h)
		}
	}
	if len(fits) == 0 {
		return schema.MakeHandle(k, 1, 0)
	}
	return pick(&q.script, fits)
}

// memory sets a range of the arena, or one that is not accessible.
func (q *sequence) memory(m *schema.Memory) {
	size := uint64(len(q.arena.b))
	*m = schema.Memory{Addr: q.arena.addr + q.number()*256%size, Length: 1 + q.number()*512%size,
		IOVA: q.number(), Access: ci.Access(q.number() & 0xff), Shared: q.take()%2 == 0}
	m.FileOffset = m.Addr - q.arena.addr
	if !m.Shared {
		m.FileOffset = 0
	}
	switch q.take() % 16 {
	case 13:
		m.Length = size + 1<<(q.take()%32)
	case 14:
		m.Addr = ^uint64(0) - q.number()
	case 15:
		m.FileOffset = q.number() << 12
	}
}

// user sets private data, those of the reference HCA's user library or any.
func (q *sequence) user(u *schema.UserBuffer) {
	switch q.take() % 4 {
	case 0:
	case 1:
		*u = schema.UserBuffer{Present: true}
	case 2:
		*u = schema.UserBuffer{Present: true, Command: rings.UserCommand, OutCapacity: 4096}
	default:
		*u = schema.UserBuffer{Present: true, Command: uint32(q.number()), OutCapacity: uint32(q.number() % 5000),
			Files: uint8(q.number() % 4), In: make([]byte, q.number()%5000)}
	}
}

// made executes a create that succeeds, and returns the handle.
func (q *sequence) made(c schema.Command, request any) schema.Handle {
	q.request(c, native.Append(nil, request), nil)
	q.receive()
	require.NotEmpty(q.r.t, q.handles, c)
	return q.handles[len(q.handles)-1]
}

// create creates one object of each kind and two QPs that are connected, with the reference HCA's user library and
// without.
func (q *sequence) create() {
	events := q.made(schema.CmdCreateEventQueue, &schema.CreateEventQueue{})
	caps := schema.QPCaps{SendDepth: 8, RecvDepth: 8, SendSGE: 2, RecvSGE: 2}
	memory := schema.Memory{Addr: q.arena.addr, Length: uint64(len(q.arena.b)), Access: 0xf}
	for _, u := range []schema.UserBuffer{{}, {Present: true, Command: rings.UserCommand, OutCapacity: 4096}} {
		ca := q.made(schema.CmdOpenCA, &schema.OpenCA{GUID: q.guid, Async: events, User: u})
		pd := q.made(schema.CmdAllocatePD, &schema.AllocatePD{CA: ca, User: u})
		cq := q.made(schema.CmdCreateCQ, &schema.CreateCQ{PD: pd, Size: 32, Completions: events, Async: events,
			User: u})
		q.made(schema.CmdCreateSRQ, &schema.CreateSRQ{PD: pd, Attr: schema.SRQAttr{MaxWR: 8, MaxSGE: 2}, User: u})
		q.made(schema.CmdRegisterMR, &schema.RegisterMR{PD: pd, Memory: memory})
		q.made(schema.CmdCreateMW, &schema.CreateMW{PD: pd, Type: uint32(ci.MWType1), User: u})
		av := schema.NewAVAttr(&ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{DGID: q.gid, HopLimit: 64}})
		q.made(schema.CmdCreateAV, &schema.CreateAV{PD: pd, Attr: av, User: u})
		var list [2]schema.Handle
		for i := range list {
			list[i] = q.made(schema.CmdCreateQP, &schema.CreateQP{PD: pd, SendCQ: cq, RecvCQ: cq, Async: events,
				Caps: caps, Type: ci.RC, User: u})
		}
		for i, qp := range list {
			q.connectTo(qp, q.nums[len(q.nums)-1-i])
		}
	}
	q.receive()
}

// connect brings a QP to RTS, connected to another one of the client.
func (q *sequence) connect() { q.connectTo(q.handle(schema.KindQP), pick(&q.script, q.nums)) }

func (q *sequence) connectTo(qp schema.Handle, num ci.QPN) {
	av := ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{DGID: q.gid, HopLimit: 64}}
	for _, x := range []interface {
		For(ci.QPType) (ci.QPField, ci.QPAttr)
	}{
		ci.ToInit{Port: 1, Access: ci.RemoteRead | ci.RemoteWrite | ci.RemoteAtomic},
		ci.ToRTR{AV: av, MTU: ci.MTU1024, DestNum: num, RespRes: 4, MinRNRTimer: 1},
		ci.ToRTS{AckTimeout: 8, RetryCount: 1, RNRRetry: 1, InitDepth: 4},
	} {
		set, attr := x.For(ci.RC)
		q.request(schema.CmdModifyQP, native.Append(nil, &schema.ModifyQP{QP: qp, Set: set,
			Attr: schema.NewQPAttr(&attr)}), nil)
	}
}

// sgl returns some elements of the arena.
func (q *sequence) sgl() (list []ci.SGE) {
	for range q.take() % 3 {
		list = append(list, ci.SGE{Addr: q.arena.addr + q.number()*64, Length: uint32(q.number() * 100),
			LKey: pick(&q.script, q.keys)})
	}
	return list
}

func (q *sequence) postRecv() {
	n := q.take() % 8
	c, k := schema.CmdPostRecv, schema.KindQP
	if q.take()%4 == 0 {
		c, k = schema.CmdPostSRQRecv, schema.KindSRQ
	}
	b := native.AppendPost(nil, q.handle(k), n)
	for i := range n {
		b = native.AppendRecv(b, &ci.RecvWR{ID: uint64(i), SGL: q.sgl()})
	}
	q.request(c, b, nil)
}

func (q *sequence) postSend() {
	n := q.take() % 8
	b := native.AppendPost(nil, q.handle(schema.KindQP), n)
	for i := range n {
		w := &ci.SendWR{ID: uint64(i), Op: ci.SendOp(q.take() % 16), Flags: ci.SendFlags(q.take() % 64), SGL: q.sgl()}
		w.Remote = ci.Remote{Addr: q.arena.addr + q.number()*64, RKey: pick(&q.script, q.keys)}
		var h schema.SendHandles
		if q.take()%8 == 0 {
			h.AV = q.handle(schema.KindAV)
		}
		b = native.AppendSend(b, w, h)
	}
	q.request(schema.CmdPostSend, b, nil)
}

// maxWaiting is the number of requests that a sequence sends before it receives replies.
const maxWaiting = 8

// request sends a request. It receives the replies at some time.
func (q *sequence) request(c schema.Command, body []byte, files []*os.File) {
	q.client.next++
	m := append(native.Start(nil), body...)
	require.NoError(q.r.t, native.Finish(m, native.Header{Command: c, ID: q.client.next}))
	require.NoError(q.r.t, q.c.Send(m, files))
	q.waiting++
	if q.waiting == maxWaiting || q.take()%4 != 3 {
		q.receive()
	}
}

// receive receives the replies that are missing, and learns from them.
func (q *sequence) receive() {
	for ; q.waiting > 0; q.waiting-- {
		h, body, err := q.recv()
		require.NoError(q.r.t, err, "the session has ended")
		if h.Status != 0 || schema.Commands[h.Command].Data {
			continue
		}
		v := reflect.New(schema.Commands[h.Command].Reply)
		require.NoError(q.r.t, native.Parse(body, v.Interface()), h.Command)
		switch r := v.Interface().(type) {
		case *schema.Created:
			q.handles = append(q.handles, r.Handle)
		case *schema.CreateCQReply:
			q.handles = append(q.handles, r.Handle)
		case *schema.CreateQPReply:
			q.handles, q.nums = append(q.handles, r.Handle), append(q.nums, r.Num)
		case *schema.RegionReply:
			q.handles, q.keys = append(q.handles, r.Handle), append(q.keys, r.Region.LKey, r.Region.RKey)
		case *schema.BindPortReply:
			q.handles = append(q.handles, r.Handle)
		case *schema.Notice:
			if r.Object != 0 {
				q.handles = append(q.handles, r.Object)
			}
		case *schema.WindowReply:
			q.handles, q.keys = append(q.handles, r.Handle), append(q.keys, r.Key)
		}
	}
}

// sequences is a daemon for sequences, with a client that is not to be affected.
type sequences struct {
	r      *rig
	arena  *arena
	honest *client
	o      objects
	gid    ci.GID
	before map[string]int
}

func newSequences(t testing.TB) *sequences { return newSequencesOf(t, nil) }

// newSequencesOf is newSequences for a daemon with services, if service is not nil.
func newSequencesOf(t testing.TB, service kproxy.Service) *sequences {
	r := newRig(t, kproxy.Config{Service: service,
		Quota: kproxy.Quota{PDs: 20, AVs: 20, CQs: 20, SRQs: 20, QPs: 20, MRs: 20, MWs: 20, QueueBytes: 1 << 20,
			MemoryBytes: 1 << 20},
		Privileged: func(kproxy.Peer) bool { return false }})
	s := &sequences{r: r, arena: newArena(t), honest: r.client()}
	s.o = s.honest.create()
	var attr schema.CAAttr
	require.NoError(t, s.honest.do(schema.CmdQueryCA, &schema.CA{CA: s.o.ca}, &attr))
	s.gid = attr.Ports[0].GIDs[0].GID
	s.before = r.live()
	return s
}

// run executes a script, and checks that the daemon has nothing of it afterwards.
func (s *sequences) run(t testing.TB, b []byte) {
	s.r.t = t
	q := &sequence{client: s.r.client(), script: script{b}, arena: s.arena, guid: s.r.hca.Info().GUID,
		gid: s.gid, requests: verbs}
	q.create()
	for len(q.b) > 0 {
		q.step()
	}
	if len(b)%2 == 0 { // otherwise the connection ends with requests in execution
		q.receive()
	}
	require.NoError(t, q.c.Close())
	require.NoError(t, s.honest.do(schema.CmdQueryQP, &schema.QP{QP: s.o.qp}, &schema.QPAttr{}))
	require.Eventually(t, func() bool {
		return len(s.r.core.Sessions()) == 1 && reflect.DeepEqual(s.before, s.r.live())
	}, time.Minute, time.Millisecond)
}

// TestSequences executes random sequences of requests.
func TestSequences(t *testing.T) {
	s := newSequences(t)
	executed := s.r.core.Load().Requests
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		b := make([]byte, 4000)
		for i := 0; i < len(b); i += 8 {
			binary.LittleEndian.PutUint64(b[i:], rnd.Uint64())
		}
		s.run(t, b[:len(b)-int(seed%2)])
	}
	require.Greater(t, s.r.core.Load().Requests-executed, uint64(1000))
}

// FuzzSequence executes sequences of requests whose handles, keys and numbers are mostly those of the client's objects.
// No sequence may stop the daemon, end the session, have a reply that does not match its declaration, leave anything
// behind, or change what another client has.
func FuzzSequence(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("a sequence"))
	s := newSequences(f)
	f.Fuzz(func(t *testing.T, b []byte) { s.run(t, b[:min(len(b), 4000)]) })
}
