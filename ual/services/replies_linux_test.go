package services_test

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"os"
	"reflect"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/internal/testenv"
	"ciddk/kproxy/native"
	"ciddk/ual"
	"ciddk/ual/services"
)

// liar is a daemon whose replies a script chooses: the bytes of a fuzz input. Without further bytes, all replies match
// their declarations.
type liar struct {
	c      *native.Conn
	script []byte
	events []*os.File // its ends of event queues
}

func (l *liar) take() int {
	if len(l.script) == 0 {
		return 0
	}
	n := l.script[0]
	l.script = l.script[1:]
	return int(n)
}

// bytes returns up to n bytes of the script.
func (l *liar) bytes(n int) []byte {
	n = min(n, len(l.script))
	b := l.script[:n]
	l.script = l.script[n:]
	return b
}

// serve replies to requests until the client, or the script, closes the connection.
func (l *liar) serve() {
	defer l.c.Close()
	buf := make([]byte, schema.MaxMessage)
	for {
		n, files, err := l.c.Recv(buf)
		native.CloseFiles(files)
		if err != nil {
			break
		}
		h, body, err := native.ParseHeader(buf[:n])
		if err != nil || !l.reply(h) {
			break
		}
		l.notify(h.Command, body)
	}
	for _, f := range l.events {
		_, _ = f.Write(l.bytes(schema.EventSize + l.take()%2)) // the client may have closed its end
		f.Close()
	}
}

// reply replies to a request. It reports false if the connection is to be closed.
func (l *liar) reply(h native.Header) bool {
	const typed, failed, raw, header = 200, 220, 240, 252
	h.Reply = true
	var body []byte
	switch n := l.take(); {
	case n < typed:
		body = l.typed(h.Command)
	case n < failed:
		h.Status = ci.Status(l.take())
		e := &schema.ErrorReply{}
		l.fill(reflect.ValueOf(e).Elem(), "")
		body = native.Append(nil, e)
	case n < raw:
		body = l.bytes(l.take())
	case n < header:
		h.ID += uint64(l.take())
		h.Command = schema.Command(l.take())
		h.Reply = l.take()%8 > 0
	default:
		return false
	}
	m := append(native.Start(nil), body...)
	if native.Finish(m, h) != nil {
		return false
	}
	files := l.files(h.Command)
	defer native.CloseFiles(files)
	return l.c.Send(m, files) == nil
}

// notify sends an event for the object that a request has created, if the script chooses so.
func (l *liar) notify(c schema.Command, body []byte) {
	v := reflect.New(schema.Commands[c].Request)
	if schema.Commands[c].Data || len(l.events) == 0 || native.Parse(body, v.Interface()) != nil {
		return
	}
	token := v.Elem().FieldByName("Token")
	if !token.IsValid() || l.take()%4 == 0 {
		return
	}
	e := schema.Event{Token: token.Uint(), Kind: schema.EventNotice}
	if n := l.take(); n%8 == 0 {
		e.Kind, e.Type = schema.EventKind(n>>3), uint32(l.take())
	}
	_, _ = l.events[len(l.events)-1].Write(e.Append(nil)) // the client may have closed its end
}

// typed returns a reply that matches the declaration of its command.
func (l *liar) typed(c schema.Command) []byte {
	switch c {
	case schema.CmdPostSend, schema.CmdPostRecv, schema.CmdPostSRQRecv:
		return native.AppendAccepted(nil, l.take())
	case schema.CmdPoll:
		return native.AppendCompletions(nil, make([]ci.WC, l.take()%20), func(any) uint64 { return uint64(l.take()) })
	}
	v := reflect.New(schema.Commands[c].Reply)
	l.fill(v.Elem(), "")
	switch r := v.Interface().(type) {
	case *schema.HelloReply:
		r.Version = schema.Version
	case *schema.ListHCAsReply:
		if len(r.HCAs) == 0 {
			r.HCAs = []schema.HCAInfo{{GUID: 1}}
		}
	case *schema.DestroyReply:
		r.Completions, r.Async = 0, 0 // the client waits for events: TestMissingEvents
	}
	return native.Append(nil, v.Interface())
}

// fill sets a field.
func (l *liar) fill(v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(l.take()%2 == 1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if n := l.take(); name != "Reserved" && name != "Pad" {
			v.SetUint(uint64(n) << (n % 8 * 8) & (1<<v.Type().Bits() - 1))
		}
	case reflect.Int32, reflect.Int64:
		v.SetInt(int64(l.take()) - 1)
	case reflect.String:
		v.SetString(string(l.bytes(l.take() % 16)))
	case reflect.Slice:
		n := l.take() % 5
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			l.fill(v.Index(i), "")
		}
	case reflect.Array:
		for i := range min(v.Len(), 8) {
			l.fill(v.Index(i), name)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			l.fill(v.Field(i), v.Type().Field(i).Name)
		}
	}
}

// files returns the descriptors of a reply: those that it needs, or others.
func (l *liar) files(c schema.Command) (list []*os.File) {
	n := l.take() % 8 % 3 // none most of the time
	if c == schema.CmdCreateEventQueue && n == 0 {
		const flags = syscall.SOCK_SEQPACKET | syscall.SOCK_CLOEXEC | syscall.SOCK_NONBLOCK
		fds, err := syscall.Socketpair(syscall.AF_UNIX, flags, 0)
		if err == nil {
			l.events = append(l.events, os.NewFile(uintptr(fds[0]), "events"))
			return []*os.File{os.NewFile(uintptr(fds[1]), "theirs")}
		}
	}
	for range n {
		if f, err := os.Open([]string{os.DevNull, "/dev/zero", "/"}[l.take()%3]); err == nil {
			list = append(list, f)
		}
	}
	return list
}

// useAll calls what a client has, as far as the replies permit, and returns the number of calls that succeed.
func useAll(c *ual.Client) (succeeded int) {
	count := func(err error) bool {
		if err == nil {
			succeeded++
		}
		return err == nil
	}
	_, err := c.Status()
	count(err)
	hcas, err := c.HCAs()
	if !count(err) || len(hcas) == 0 {
		return succeeded
	}
	ca, err := hcas[0].OpenCA(hcas[0].Info().GUID, func(ci.Event) {}, nil)
	if !count(err) {
		return succeeded
	}
	_, err = ca.Query()
	count(err)
	var in, out ci.MAD
	count(ca.LocalMAD(1, nil, &in, &out))
	pd, err := ca.AllocatePD(ci.PDNormal)
	if !count(err) {
		return succeeded
	}
	av, err := pd.CreateAV(ci.AVAttr{Port: 1})
	if count(err) {
		_, _, err = av.Query()
		count(err)
	}
	mr, err := pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 64)), Access: ci.LocalWrite})
	if count(err) {
		_, err = mr.Query()
		count(err)
		count(mr.Modify(ci.MRFieldAccess, nil, ci.MRCreate{}))
	}
	mw, err := pd.CreateMW(ci.MWCreate{Type: ci.MWType1})
	if count(err) {
		_, err = mw.Query()
		count(err)
	}
	cq, err := pd.CreateCQ(ci.CQCreate{Size: 16, OnCompletion: func(any) {}})
	if !count(err) {
		return succeeded
	}
	_, err = cq.Peek()
	count(err)
	count(cq.Notify(ci.NotifyNext))
	_, err = cq.Resize(ci.CQResize{Size: 32})
	count(err)
	srq, err := pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 4, MaxSGE: 1}})
	if count(err) {
		_, err = srq.PostRecv(make([]ci.RecvWR, 3))
		count(err)
	}
	qp, err := pd.CreateQP(ci.QPCreate{Type: ci.RC, SendCQ: cq, RecvCQ: cq,
		QPCaps: ci.QPCaps{SendDepth: 8, RecvDepth: 8, SendSGE: 1, RecvSGE: 1}})
	if count(err) {
		count(qp.Modify(ci.ToInit{Port: 1}.For(ci.RC)))
		_, err = qp.Query()
		count(err)
		_, err = qp.PostSend(make([]ci.SendWR, 3))
		count(err)
		_, err = qp.PostRecv(make([]ci.RecvWR, 3))
		count(err)
		_, err = cq.Poll(make([]ci.WC, 16))
		count(err)
		count(qp.Destroy())
	}
	count(cq.Destroy())
	return succeeded
}

// useServices is useAll for the services of a daemon.
func useServices(c *ual.Client) (succeeded int) {
	count := func(err error) bool {
		if err == nil {
			succeeded++
		}
		return err == nil
	}
	s, err := services.Open(c)
	if !count(err) {
		return 0
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	port := mads.Port{CA: 1, Num: 1}
	defer s.MAD().Watch(func(mads.Port, bool) {})()
	a, err := s.MAD().Register(mads.AgentConfig{Port: port, Class: 0x30, Version: 1, OUI: [3]byte{1, 2, 3}})
	if count(err) {
		count(a.Send(&mads.Message{To: mads.Address{QPN: 1}, MAD: make([]byte, 256)}))
		count(a.Close())
	}
	b, err := s.Ports().Bind(cmid.TCP, netip.AddrPort{}, false)
	if count(err) {
		count(b.Listen())
		b.Release()
	}
	l, err := s.CM().Listen(cm.ListenConfig{Service: 1})
	if count(err) {
		count(l.StartAccept(ctx, func(cm.Conn, error) {}))
		count(l.StartAcceptLookup(ctx, func(cm.LookupRequest, error) {}))
	}
	path := cm.Path{Port: port, AV: ci.AVAttr{Port: 1}}
	ended := func(cm.Conn, error) {}
	count(s.CM().StartConnect(ctx, cm.ConnectConfig{Service: 1, Primary: path, QP: cm.QP{Num: 5, Type: ci.RC}}, ended))
	count(s.CM().StartLookup(ctx, cm.LookupConfig{Service: 1, Path: path}, func(*cm.LookupReply, error) {}))
	count(s.Close())
	return succeeded
}

// lie runs a client of a daemon that follows a script, and returns the number of calls that succeed. It checks that the
// client ends.
func lie(t *testing.T, script []byte) int {
	a, b, err := native.Pair()
	require.NoError(t, err)
	l := &liar{c: a, script: script}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.serve()
	}()
	c, err := ual.New(b, ual.Config{Name: "client", CallTimeout: testenv.Patience})
	n := 0
	if err == nil {
		n = useAll(c) + useServices(c)
		require.NoError(t, c.Close(), "the client has waited for the daemon")
	}
	<-ended
	return n
}

// TestReplies has daemons whose replies match their declarations, or do not. Verbs fail, and the client ends.
func TestReplies(t *testing.T) {
	require.Greater(t, lie(t, nil), 30)
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		b := make([]byte, 8*rnd.IntN(200))
		for i := 0; i < len(b); i += 8 {
			binary.LittleEndian.PutUint64(b[i:], rnd.Uint64())
		}
		lie(t, b)
	}
}

// FuzzReplies has a daemon that replies anything to a client's requests. Verbs fail, and the client ends.
func FuzzReplies(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("a daemon that lies"))
	f.Fuzz(func(t *testing.T, b []byte) { lie(t, b) })
}
