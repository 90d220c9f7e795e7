package mad_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/mad"
)

var cmAttributes = []uint16{mad.AttrREQ, mad.AttrMRA, mad.AttrREJ, mad.AttrREP, mad.AttrRTU, mad.AttrDREQ,
	mad.AttrDREP, mad.AttrSIDRREQ,
	mad.AttrSIDRREP, mad.AttrLAP, mad.AttrAPR}

// good returns an empty message that passes Check.
func good(attr uint16) mad.CMMessage {
	m := mad.NewCMMessage(attr)
	if r, ok := m.(*mad.REQ); ok {
		r.PathMTU = mad.MTU1024
	}
	return m
}

func TestCMMessages(t *testing.T) {
	t.Parallel()
	private := map[uint16]int{mad.AttrREQ: 92, mad.AttrMRA: 222, mad.AttrREJ: 148, mad.AttrREP: 196, mad.AttrRTU: 224,
		mad.AttrDREQ: 220,
		mad.AttrDREP: 224, mad.AttrSIDRREQ: 216, mad.AttrSIDRREP: 136, mad.AttrLAP: 168, mad.AttrAPR: 148}
	for _, attr := range cmAttributes {
		m := good(attr)
		name := mad.AttributeName(mad.ClassCM, attr)
		require.Equal(t, attr, m.Attribute(), name)
		require.NoError(t, m.Check(), name)
		limit := private[attr]
		require.Len(t, m.Private(), limit, name)
		full := bytes.Repeat([]byte{0xa5}, limit)
		require.NoError(t, mad.SetPrivate(m, full), name)
		assert.Equal(t, full, m.Private(), name)
		err := mad.SetPrivate(m, make([]byte, limit+1))
		require.ErrorIs(t, err, mad.ErrLength, name)
		assert.ErrorContains(t, err, name+" PrivateData")
		assert.Equal(t, full, m.Private(), "%s: a refused set changed it", name)

		// Private data is the end of the message, and longer data that was set before is cleared.
		require.NoError(t, mad.SetPrivate(m, []byte{1}), name)
		h := mad.CMHeader(7, m)
		b, err := mad.AppendCM([]byte{9}, &h, m)
		require.NoError(t, err, name)
		require.Len(t, b, 1+mad.Size, name)
		want := make([]byte, limit)
		want[0] = 1
		assert.Equal(t, want, b[1+mad.Size-limit:], name)
		gotH, got, err := mad.ParseCM(b[1:])
		require.NoError(t, err, name)
		assert.Equal(t, h, gotH, name)
		assert.Equal(t, m, got, name)
	}
	assert.Nil(t, mad.NewCMMessage(0x0f))
	assert.Nil(t, mad.NewCMMessage(0x1b))
}

func TestCMCheckValues(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, field string
		m           mad.CMMessage
	}{
		{"no MTU", "PathMTU", &mad.REQ{}},
		{"reserved MTU", "PathMTU", &mad.REQ{PathMTU: 6}},
		{"MRA of nothing", "Message", &mad.MRA{Message: 3}},
		{"REJ of nothing known", "Message", &mad.REJ{Message: 3}},
		{"REJ info", "InfoLength", &mad.REJ{InfoLength: 73}},
		{"APR info", "InfoLength", &mad.APR{InfoLength: 73}},
		{"SIDR info", "InfoLength", &mad.SIDRREP{InfoLength: 73}},
		{"failover", "Failover", &mad.REP{Failover: 3}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := tt.m.Check()
			require.ErrorIs(t, err, mad.ErrRange)
			var e *mad.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, tt.field, e.Field)
		})
	}
}

// informed is a message with additional information.
type informed interface {
	mad.CMMessage
	AdditionalInfo() []byte
	SetAdditionalInfo([]byte) error
}

func TestAdditionalInfo(t *testing.T) {
	t.Parallel()
	for _, m := range []informed{new(mad.REJ), new(mad.APR), new(mad.SIDRREP)} {
		assert.Empty(t, m.AdditionalInfo())
		full := bytes.Repeat([]byte{1}, mad.CMInfoLen)
		require.NoError(t, m.SetAdditionalInfo(full))
		assert.Equal(t, full, m.AdditionalInfo())
		require.ErrorIs(t, m.SetAdditionalInfo(make([]byte, mad.CMInfoLen+1)), mad.ErrLength)
		assert.Equal(t, full, m.AdditionalInfo())
		require.NoError(t, m.SetAdditionalInfo([]byte{2, 3}))
		require.NoError(t, m.Check())
		b := make([]byte, mad.CMDataLen)
		m.Put(b)
		assert.Equal(t, 1, bytes.Count(b, []byte{2, 3}))
		assert.Zero(t, bytes.Count(b, []byte{1, 1}), "the longer information is cleared")
		got := mad.NewCMMessage(m.Attribute()).(informed)
		got.Parse(b)
		assert.Equal(t, []byte{2, 3}, got.AdditionalInfo())
	}
	assert.Len(t, (&mad.REJ{InfoLength: 127}).AdditionalInfo(), mad.CMInfoLen, "a broken sender's length")
	assert.Len(t, (&mad.APR{InfoLength: 255}).AdditionalInfo(), mad.CMInfoLen)
	assert.Len(t, (&mad.SIDRREP{InfoLength: 255}).AdditionalInfo(), mad.CMInfoLen)
}

func TestParseCMRefuses(t *testing.T) {
	t.Parallel()
	m := good(mad.AttrRTU)
	h := mad.CMHeader(1, m)
	valid, err := mad.AppendCM(nil, &h, m)
	require.NoError(t, err)
	edit := func(at int, v byte) []byte {
		b := bytes.Clone(valid)
		b[at] = v
		return b
	}
	tests := []struct {
		name, field string
		b           []byte
		kind        error
	}{
		{"nothing", "datagram", nil, mad.ErrLength},
		{"short", "datagram", valid[:255], mad.ErrLength},
		{"long", "datagram", append(bytes.Clone(valid), 0), mad.ErrLength},
		{"base version", "BaseVersion", edit(0, 2), mad.ErrVersion},
		{"class", "Class", edit(1, 3), mad.ErrClass},
		{"class version", "ClassVersion", edit(2, 1), mad.ErrVersion},
		{"method", "Method", edit(3, 1), mad.ErrMethod},
		{"attribute", "Attribute", edit(17, 0x1b), mad.ErrAttribute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h, m, err := mad.ParseCM(tt.b)
			require.ErrorIs(t, err, tt.kind)
			assert.Nil(t, m)
			var e *mad.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, tt.field, e.Field)
			if len(tt.b) == mad.Size {
				var want mad.Header
				want.Parse(tt.b)
				assert.Equal(t, want, h, "an answer needs the header")
			}
		})
	}
}

func TestAppendCMRefuses(t *testing.T) {
	t.Parallel()
	m := good(mad.AttrRTU)
	tests := []struct {
		name string
		edit func(h *mad.Header)
		kind error
	}{
		{"other message", func(h *mad.Header) { h.Attribute = mad.AttrREP }, mad.ErrAttribute},
		{"class", func(h *mad.Header) { h.Class = mad.ClassSubnetAdmin }, mad.ErrClass},
		{"class version", func(h *mad.Header) { h.ClassVersion = 1 }, mad.ErrVersion},
		{"base version", func(h *mad.Header) { h.BaseVersion = 0 }, mad.ErrVersion},
		{"method", func(h *mad.Header) { h.Method = mad.GetResp }, mad.ErrMethod},
		{"reserved", func(h *mad.Header) { h.Reserved = 1 }, mad.ErrReserved},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := mad.CMHeader(1, m)
			tt.edit(&h)
			b, err := mad.AppendCM([]byte{1}, &h, m)
			require.ErrorIs(t, err, tt.kind)
			assert.Equal(t, []byte{1}, b)
		})
	}
}

// drawCM draws a message that passes Check: random bytes without reserved bits and reserved values.
func drawCM(rt *rapid.T) mad.CMMessage {
	m := mad.NewCMMessage(rapid.SampledFrom(cmAttributes).Draw(rt, "attribute"))
	m.Parse(rapid.SliceOfN(rapid.Byte(), mad.CMDataLen, mad.CMDataLen).Draw(rt, "bytes"))
	for _, f := range leaves("", reflect.ValueOf(m).Elem()) {
		switch name := f.name[strings.LastIndexByte(f.name, '.')+1:]; {
		case strings.HasPrefix(name, "Reserved"):
			f.v.SetZero()
		case name == "PathMTU":
			f.v.SetUint(1 + f.v.Uint()%5)
		case name == "Message" || name == "Failover":
			f.v.SetUint(f.v.Uint() % 3)
		case name == "InfoLength":
			f.v.SetUint(f.v.Uint() % (mad.CMInfoLen + 1))
		}
	}
	return m
}

func TestCMRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		m := drawCM(rt)
		h := mad.CMHeader(rapid.Uint64().Draw(rt, "TID"), m)
		h.Modifier = rapid.Uint32().Draw(rt, "modifier")
		b, err := mad.AppendCM(nil, &h, m)
		require.NoError(rt, err)
		require.Len(rt, b, mad.Size)
		gotH, got, err := mad.ParseCM(b)
		require.NoError(rt, err)
		require.Equal(rt, h, gotH)
		require.Equal(rt, m, got)
	})
}
