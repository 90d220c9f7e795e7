package crspace_test

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/bus/usb/crspace"
)

var errBus = errors.New("bus error")

// A recorder is a bus with an adapter whose registers have their addresses as values. It records transactions.
type recorder struct {
	addr uint8
	id   uint32
	log  []string
	fail int // transaction, counted from 1
}

func (r *recorder) record(kind string, addr uint8, b []byte, n int) error {
	r.log = append(r.log, fmt.Sprintf("%s %02x %s %d", kind, addr, hex.EncodeToString(b), n))
	if addr != r.addr || len(r.log) == r.fail {
		return errBus
	}
	return nil
}

func (r *recorder) Write(_ context.Context, addr uint8, w []byte) error {
	return r.record("w", addr, w, 0)
}

func (r *recorder) WriteRead(_ context.Context, addr uint8, w, b []byte) error {
	at := binary.BigEndian.Uint32(w)
	for i := range len(b) / 4 {
		v := at + 4*uint32(i)
		if v == crspace.RegDeviceID && r.id != 0 {
			v = r.id
		}
		binary.BigEndian.PutUint32(b[4*i:], v)
	}
	return r.record("r", addr, w, len(b))
}

// TestRead checks transactions and values at the limits of a transaction.
func TestRead(t *testing.T) {
	for _, tt := range []struct {
		n    int
		want []string
	}{
		{1, []string{"r 48 00012340 4"}},
		{15, []string{"r 48 00012340 60"}},
		{16, []string{"r 48 00012340 64"}},
		{17, []string{"r 48 00012340 64", "r 48 00012380 4"}},
		{33, []string{"r 48 00012340 64", "r 48 00012380 64", "r 48 000123c0 4"}},
	} {
		r := &recorder{addr: crspace.Address}
		v := make([]uint32, tt.n)
		require.NoError(t, crspace.New(r, crspace.Config{}).ReadBlock(t.Context(), 0x12340, v))
		assert.Equal(t, tt.want, r.log)
		for i, x := range v {
			assert.Equal(t, 0x12340+4*uint32(i), x)
		}
	}
}

func TestWrite(t *testing.T) {
	r := &recorder{addr: 0x50}
	s := crspace.New(r, crspace.Config{Address: 0x50, AllowWrites: true})
	require.NoError(t, s.Write32(t.Context(), 0xf0010, 0x01020304))
	require.NoError(t, s.WriteBlock(t.Context(), 0x10, make([]uint32, 9)))
	require.Len(t, r.log, 3)
	assert.Equal(t, "w 50 000f001001020304 0", r.log[0])
	assert.Len(t, r.log[1], len("w 50  0")+2*36)
	assert.Equal(t, "w 50 0000003000000000 0", r.log[2])
}

// TestReadOnly checks that no write reaches the bus without permission.
func TestReadOnly(t *testing.T) {
	r := &recorder{addr: crspace.Address}
	s := crspace.New(r, crspace.Config{})
	require.ErrorIs(t, s.Write32(t.Context(), 0, 1), crspace.ErrReadOnly)
	require.ErrorIs(t, s.WriteBlock(t.Context(), 0, make([]uint32, 3)), crspace.ErrReadOnly)
	assert.Empty(t, r.log)
}

func TestRange(t *testing.T) {
	r := &recorder{addr: crspace.Address}
	s := crspace.New(r, crspace.Config{AllowWrites: true})
	for _, tt := range []struct {
		addr uint32
		n    int
		text string
	}{
		{2, 1, "not divisible by 4"},
		{0, 0, "no registers"},
		{crspace.Size, 1, "0x100000 bytes"},
		{crspace.Size - 4, 2, "2 registers at 0xffffc"},
		{0xfffffffc, 2, "0xfffffffc"},
	} {
		err := s.ReadBlock(t.Context(), tt.addr, make([]uint32, tt.n))
		require.ErrorIs(t, err, crspace.ErrRange)
		assert.ErrorContains(t, err, tt.text)
		require.ErrorIs(t, s.WriteBlock(t.Context(), tt.addr, make([]uint32, tt.n)), crspace.ErrRange)
	}
	assert.Empty(t, r.log)
	_, err := s.Read32(t.Context(), crspace.Size-4)
	assert.NoError(t, err)
}

// TestFailure checks that the error names the register at which a block failed.
func TestFailure(t *testing.T) {
	r := &recorder{addr: crspace.Address, fail: 2}
	err := crspace.New(r, crspace.Config{}).ReadBlock(t.Context(), 0x100, make([]uint32, 40))
	require.ErrorIs(t, err, errBus)
	assert.ErrorContains(t, err, "register 0x140")
	assert.Len(t, r.log, 2)
	r = &recorder{addr: crspace.Address, fail: 1}
	err = crspace.New(r, crspace.Config{AllowWrites: true}).Write32(t.Context(), 0x104, 1)
	require.ErrorIs(t, err, errBus)
	assert.ErrorContains(t, err, "register 0x104")
}

func TestFind(t *testing.T) {
	for _, tt := range []struct {
		name string
		at   uint8
		cfg  crspace.Config
		id   uint32
		want string // "" = not found
		seen int
	}{
		{"ConnectX-3", 0x48, crspace.Config{}, 0x101f5, "ConnectX-3", 1},
		{"Pro", 0x48, crspace.Config{}, 0x1f7, "ConnectX-3 Pro", 1},
		{"unknown", 0x48, crspace.Config{}, 0x1234, "unknown", 1},
		{"secured", 0x47, crspace.Config{}, 0x20d, "ConnectX-5", 2},
		{"elsewhere", 0x30, crspace.Config{Address: 0x30}, 0x1f5, "ConnectX-3", 1},
		{"none", 0x30, crspace.Config{}, 0x1f5, "", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &recorder{addr: tt.at, id: tt.id}
			s, id, err := crspace.Find(t.Context(), r, tt.cfg)
			assert.Len(t, r.log, tt.seen)
			if tt.want == "" {
				require.ErrorIs(t, err, errBus)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tt.want, id.String())
			assert.Equal(t, uint16(tt.id), id.Device)
			assert.Equal(t, uint8(tt.id>>16), id.Revision)
			assert.Equal(t, tt.at, s.Address())
			assert.Equal(t, uint32(crspace.Size), s.Size())
		})
	}
}
