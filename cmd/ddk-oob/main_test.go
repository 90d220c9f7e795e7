package main

import (
	"bytes"
	"fmt"
	"math/bits"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/bus/usb"
	"ciddk/bus/usb/crspace"
	"ciddk/bus/usb/u2c"
	"ciddk/internal/command"
	"ciddk/internal/mlx4/prm"
	"ciddk/internal/u2cfake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestFake runs commands on the adapter in software.
func TestFake(t *testing.T) {
	for _, tt := range []struct {
		args      string
		status    int
		out, errs string
	}{
		{"--help", 0, "Registers of a Mellanox card", ""},
		{"", command.ExitUsage, "", "expected one of"},
		{"--fake list", 0, "0:1  serial fa4e0001  firmware 1.3\n", ""},
		{"--fake id", 0, "ConnectX-3  device 0x01f5  revision 0  at I2C address 0x48\n", ""},
		{"--fake --batch --speed 400000 id", 0, "ConnectX-3  device 0x01f5", ""},
		{"--fake --serial FA4E0001 id", 0, "ConnectX-3", ""},
		{"--fake --usb 0:1 id", 0, "ConnectX-3", ""},
		{"--fake read 0xf0014", 0, "f0014: 000001f5\n", ""},
		{"--fake read 0xf0010 2", 0, "f0010: 00000000\nf0014: 000001f5\n", ""},
		{"--fake dump 0xf0014 8", 0, "f0014: 000001f5 00000000\n", ""},
		{"--fake dump 0x80690 0x20", 0, "80690: 00000000 00000000 00000000 --------\n806a0: 00000000", ""},
		{"--fake dump --all 0x80690 0x10", 0, "80690: 00000000 00000000 00000000 00000000\n", ""},
		{"--fake dump 0xffff8", 0, "ffff8: 00000000 00000000\n", ""},
		{"--fake scan", 0, "0x48\n", ""},
		{"--fake recover", 0, "", ""},
		{"--fake write --yes-i-know 0x10 7", 0, "", "register 00010: old value 00000000, writing 00000007"},
		{"--fake write --yes-i-know 0xf03fc 0", 0, "", "old value not read"},
		{"--fake write 0x10 7", command.ExitError, "", "writes are not allowed"},
		{"--fake --serial 1 id", command.ExitError, "", "serial number 00000001"},
		{"--fake --serial xyz id", command.ExitError, "", `--serial "xyz"`},
		{"--fake --usb 1 id", command.ExitError, "", "BUS:ADDRESS"},
		{"--fake --usb 3:4 id", command.ExitError, "", "no such adapter"},
		{"--fake --address 0x30 id", command.ExitError, "", "no target acknowledges"},
		{"--fake --speed 200000 id", command.ExitError, "", "200000 Hz"},
		{"--fake read 0xf0015", command.ExitError, "", "not divisible by 4"},
		{"--fake read 0x100000", command.ExitError, "", "0x100000 bytes"},
		{"--fake read 0x8069c", 0, "8069c: 00000000\n", ""},
		{"--fake read 0x80680 7", 0, "80698: ", ""},
		{"--fake read 0x80680 8", command.ExitError, "", "0x8069c, which a read changes"},
		{"--fake read 0xf03fc 2", command.ExitError, "", "0xf03fc, which a read changes"},
		{"--fake read 0 0", command.ExitError, "", "count 0"},
		{"--fake read zero", command.ExitUsage, "", "zero"},
		{"--fake read 0x100000000", command.ExitUsage, "", "32 bits"},
		{"--fake dump 2", command.ExitError, "", "multiples of 4"},
		{"--fake dump 0x100000", command.ExitError, "", "0x100000 bytes"},
	} {
		var out, errs bytes.Buffer
		assert.Equal(t, tt.status, run(t.Context(), strings.Fields(tt.args), &out, &errs), "%s: %s", tt.args, &errs)
		if strings.HasSuffix(tt.out, "\n") {
			assert.Equal(t, tt.out, out.String(), tt.args)
		}
		assert.Contains(t, out.String(), tt.out, tt.args)
		assert.Contains(t, errs.String(), tt.errs, tt.args)
	}
}

// TestSameRegisters checks that I2C and PCI read the same registers of a model.
func TestSameRegisters(t *testing.T) {
	f, err := newFake()
	require.NoError(t, err)
	defer func() { assert.NoError(t, f.close()) }()
	a, err := u2c.Open(t.Context(), u2cfake.New(u2cfake.Config{Targets: map[uint8]u2cfake.Target{
		crspace.Address: u2cfake.CRSpace(u2cfake.Registers(f.model, prm.BARControl))}}), u2c.Config{BatchReads: true})
	require.NoError(t, err)
	s := crspace.New(a, crspace.Config{AllowWrites: true})
	f.model.FailDevice()
	regs := []uint32{prm.RegDeviceID, prm.RegCatastrophic, prm.RegCatastrophic + 4, prm.RegHCR, prm.RegHCR + 0x18}
	for _, r := range regs {
		v, err := s.Read32(t.Context(), r)
		require.NoError(t, err)
		assert.Equal(t, bits.ReverseBytes32(uint32(f.model.ReadBAR(prm.BARControl, uint64(r), 4))), v, "%#x", r)
	}
	v, err := s.Read32(t.Context(), prm.RegCatastrophic)
	require.NoError(t, err)
	assert.NotZero(t, v)
	require.NoError(t, s.Write32(t.Context(), prm.RegReset, prm.ResetValue))
	v, err = s.Read32(t.Context(), prm.RegCatastrophic)
	require.NoError(t, err)
	assert.Zero(t, v)
}

// shelf is a source of adapters in software with serial numbers.
type shelf []uint32

func (s shelf) list() (l []usb.Info, err error) {
	for i := range s {
		l = append(l, usb.Info{Bus: 1, Address: i})
	}
	return l, nil
}

func (s shelf) open(p *program, at usb.Info) (*u2c.Adapter, error) {
	if at.Address >= len(s) || s[at.Address] == 0 {
		return nil, usb.ErrBusy
	}
	return u2c.Open(p.ctx, u2cfake.New(u2cfake.Config{Serial: s[at.Address]}), p.config())
}

func (shelf) close() error { return nil }

// TestSelect checks that one of several adapters must be selected.
func TestSelect(t *testing.T) {
	for _, tt := range []struct {
		have shelf
		o    options
		want uint32
		text string
	}{
		{shelf{7}, options{}, 7, ""},
		{shelf{7, 8}, options{Serial: "00000008"}, 8, ""},
		{shelf{0, 8}, options{Serial: "8"}, 8, ""},
		{shelf{7, 8}, options{USB: "1:1"}, 8, ""},
		{shelf{7, 8}, options{}, 0, "several USB adapters"},
		{shelf{0, 8}, options{Serial: "9"}, 0, "another process"},
		{shelf{}, options{}, 0, "no such adapter"},
	} {
		p := &program{ctx: t.Context(), options: tt.o}
		a, err := p.adapter(tt.have)
		if tt.text != "" {
			assert.ErrorContains(t, err, tt.text, fmt.Sprint(tt.have, tt.o))
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, tt.want, a.Info().Serial)
		assert.NoError(t, a.Close())
	}
}
