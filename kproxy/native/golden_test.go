package native

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

var update = flag.Bool("update", false, "write the golden files")

// fill sets every field of a message to a value that differs from those of its neighbours and satisfies its
// declaration.
func fill(v reflect.Value, f *field, n *uint64) {
	*n++
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(int64(*n % 120))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(fillUint(f, *n))
	case reflect.String:
		v.SetString(fmt.Sprintf("text%d", *n))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i), f, n)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), nil, n)
		}
	case reflect.Struct:
		l := layoutOf(v.Type())
		for i := range l.fields {
			if g := &l.fields[i]; !g.zero {
				fill(v.Field(g.index), g, n)
			}
		}
	}
}

func fillUint(f *field, n uint64) uint64 {
	switch {
	case f == nil:
		return n % 250
	case f.any:
		return uint64(schema.MakeHandle(schema.KindQP, 1, uint32(n)))
	case f.handle != schema.KindNone:
		return uint64(schema.MakeHandle(f.handle, 1, uint32(n)))
	case f.layout.kind != reflect.Slice && f.bounded:
		return max(f.min, n%(f.max+1))
	case f.layout.kind == reflect.Slice:
		return n % 250
	}
	return max(f.min, n%250)
}

// messages are all requests and replies, by name.
func messages() map[string]reflect.Type {
	list := map[string]reflect.Type{"error.reply": reflect.TypeFor[schema.ErrorReply]()}
	for c := schema.Command(1); c < schema.NumCommands; c++ {
		name := strings.ReplaceAll(c.String(), " ", "-")
		list[name+".request"], list[name+".reply"] = schema.Commands[c].Request, schema.Commands[c].Reply
	}
	return list
}

// TestGolden compares the bytes of every message with those of schema.Version, so that no change of a type changes
// the protocol unnoticed. Each message comes back from its bytes as it was.
func TestGolden(t *testing.T) {
	for name, typ := range messages() {
		if typ == reflect.TypeFor[schema.None]() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			v, n := reflect.New(typ), uint64(0)
			fill(v.Elem(), nil, &n)
			b := Append(nil, v.Interface())
			golden(t, name, b)
			back := reflect.New(typ)
			require.NoError(t, Parse(b, back.Interface()))
			assert.Equal(t, v.Interface(), back.Interface())
			assert.Zero(t, len(b)%8)
		})
	}
}

func golden(t *testing.T, name string, b []byte) {
	file := filepath.Join("testdata", "golden", name+".hex")
	text := hex.Dump(b)
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), text)
}

// TestGoldenData does the same for the messages of the data path.
func TestGoldenData(t *testing.T) {
	sends, handles := goldenSends()
	b := AppendPost(nil, schema.MakeHandle(schema.KindQP, 1, 2), len(sends))
	for i := range sends {
		from := len(b)
		b = AppendSend(b, &sends[i], handles[i])
		assert.Equal(t, SendSize(&sends[i]), len(b)-from)
	}
	golden(t, "post-send.batch", b)
	var p Posts
	q, err := p.ParseSend(b)
	require.NoError(t, err)
	assert.Equal(t, schema.MakeHandle(schema.KindQP, 1, 2), q)
	assert.Equal(t, sends, p.Send)
	assert.Equal(t, handles, p.Handles)

	recvs := []ci.RecvWR{{ID: 1, SGL: []ci.SGE{{Addr: 2, Length: 3, LKey: 4}, {Addr: 5, Length: 6, LKey: 7}}}, {ID: 8}}
	b = AppendPost(nil, schema.MakeHandle(schema.KindSRQ, 1, 2), len(recvs))
	for i := range recvs {
		b = AppendRecv(b, &recvs[i])
	}
	golden(t, "post-recv.batch", b)
	_, err = p.ParseRecv(b)
	require.NoError(t, err)
	assert.Equal(t, recvs, p.Recv)

	golden(t, "poll.batch", AppendPoll(nil, schema.MakeHandle(schema.KindCQ, 1, 2), 3))
	wc := []ci.WC{{ID: 1, Context: uint64(2), Length: 3, QPN: 4, Imm: 5, SrcQP: 6, VendorErr: 7, EECN: 8,
		PKeyIndex: 9, SLID: 10,
		EtherType: 11, Flags: 12, Status: 13, Op: 14, SL: 15, PathBits: 16}}
	b = AppendCompletions(nil, wc, func(c any) uint64 { return c.(uint64) })
	golden(t, "completions.batch", b)
	got := make([]ci.WC, 1)
	n, err := ParseCompletions(b, got, func(token uint64) any { return token })
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	assert.Equal(t, wc, got)
}

func goldenSends() ([]ci.SendWR, []schema.SendHandles) {
	sends := []ci.SendWR{
		{ID: 1, Op: ci.OpSend, Flags: ci.SendSignaled, Imm: 2, Inv: 3, SGL: []ci.SGE{{Addr: 4, Length: 5, LKey: 6}},
			Remote: ci.Remote{Addr: 7, RKey: 8}, Atomic: ci.Atomic{Compare: 9, Swap: 10},
			To: ci.Dest{QPN: 11, QKey: 12, EECN: 13, PKeyIndex: 14}},
		{ID: 15, Op: ci.OpWrite, Inline: []byte("inline data")},
		{ID: 16, Op: ci.OpBindMW, Ext: &ci.SendExt{Bind: ci.MWBind{Addr: 17, Length: 18, Key: 19, Access: 20}}},
		{ID: 21, Op: ci.OpLSO, Ext: &ci.SendExt{LSO: ci.LSO{MSS: 22, Header: []byte("header")}}, Inline: []byte{}},
		{ID: 23, Op: ci.OpFlush, Ext: &ci.SendExt{Flush: ci.Flush{Types: ci.FlushGlobal, Region: true, Length: 24}}},
	}
	return sends, []schema.SendHandles{{AV: schema.MakeHandle(schema.KindAV, 1, 1)}, {},
		{MW: schema.MakeHandle(schema.KindMW, 1, 2), MR: schema.MakeHandle(schema.KindMR, 1, 3)}, {}, {}}
}

// TestHeader checks the header's bytes and its validation.
func TestHeader(t *testing.T) {
	m := append(Start(nil), 1, 2, 3, 4)
	require.NoError(t, Finish(m, Header{Command: schema.CmdPoll, Reply: true, Status: ci.Timeout,
		ID: 0x0102030405060708}))
	assert.Equal(t, "14000000278006000807060504030201"+"01020304", hex.EncodeToString(m))
	h, body, err := ParseHeader(m)
	require.NoError(t, err)
	assert.Equal(t, Header{Command: schema.CmdPoll, Reply: true, Status: ci.Timeout, ID: 0x0102030405060708}, h)
	assert.Equal(t, []byte{1, 2, 3, 4}, body)
	for name, change := range map[string]func(b []byte){
		"length":           func(b []byte) { b[0]++ },
		"command 0":        func(b []byte) { b[4], b[5] = 0, 0 },
		"unknown command":  func(b []byte) { b[4], b[5] = 0xff, 0x7f },
		"status":           func(b []byte) { b[7] = 1 },
		"request's status": func(b []byte) { b[5] = 0 },
	} {
		bad := append([]byte(nil), m...)
		change(bad)
		_, _, err := ParseHeader(bad)
		assert.Error(t, err, name)
	}
	_, _, err = ParseHeader(m[:HeaderSize-1])
	require.Error(t, err)
}

// TestRejects checks that a request which does not match its declaration is rejected.
func TestRejects(t *testing.T) {
	good := &schema.CreateCQ{PD: schema.MakeHandle(schema.KindPD, 1, 1), Size: 4,
		User: schema.UserBuffer{In: []byte{1}}}
	b := Append(nil, good)
	var got schema.CreateCQ
	require.NoError(t, Parse(b, &got))
	for _, x := range []struct {
		name string
		b    []byte
	}{
		{"empty", nil},
		{"a byte is missing", b[:len(b)-1]},
		{"a byte too many", append(append([]byte(nil), b...), 0)},
		{"eight bytes too many", append(append([]byte(nil), b...), zeros[:]...)},
		{"padding", changed(b, len(b)-1, 1)},
		{"count beyond the body", changed(b, 64, 9)},
		{"a bool of 2", changed(b, 61, 2)},
		{"reserved", changed(b, 68, 1)},
		{"a handle of another kind", changed(b, 7, byte(schema.KindQP))},
		{"no handle", append(append([]byte(nil), zeros[:]...), b[8:]...)},
	} {
		require.Error(t, Parse(x.b, &got), x.name)
	}
	var kind *HandleError
	require.ErrorAs(t, Parse(changed(b, 7, byte(schema.KindQP)), &got), &kind)
	assert.Equal(t, schema.KindPD, kind.Want)
}

func changed(b []byte, i int, to byte) []byte {
	c := append([]byte(nil), b...)
	c[i] = to
	return c
}

// TestAccepted decodes replies of posts, also those of a wrong size.
func TestAccepted(t *testing.T) {
	b := AppendAccepted(nil, 7)
	require.Len(t, b, PostReplySize)
	n, err := ParseAccepted(b)
	require.NoError(t, err)
	require.Equal(t, 7, n)
	for _, wrong := range [][]byte{nil, b[:7], append(b, 0)} {
		_, err := ParseAccepted(wrong)
		require.Error(t, err)
	}
}

// TestPostSizes appends posts, whose sizes are those that were promised, and changes the count of one.
func TestPostSizes(t *testing.T) {
	sgl := []ci.SGE{{Addr: 1, Length: 2, LKey: 3}, {Addr: 4, Length: 5, LKey: 6}}
	for n := range len(sgl) + 1 {
		w := &ci.RecvWR{ID: 9, SGL: sgl[:n]}
		require.Len(t, AppendRecv(nil, w), RecvSize(w))
	}
	b := AppendPost(nil, 5, 2)
	SetPostCount(b, 3)
	require.Equal(t, AppendPost(nil, 5, 3), b)
}
