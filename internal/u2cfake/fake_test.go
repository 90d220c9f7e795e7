package u2cfake_test

import (
	"context"
	"encoding/hex"
	"maps"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/bus/usb/crspace"
	"ciddk/bus/usb/u2c"
	"ciddk/internal/u2cfake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is registers that keep what is written to them.
type memory map[uint32]uint32

func (m memory) Read(addr uint32) uint32 { return m[addr] }
func (m memory) Write(addr, v uint32)    { m[addr] = v }

// card returns an adapter with a card, and the card's registers.
func card(t *testing.T, f u2cfake.Faults, c u2c.Config) (*u2cfake.Adapter, *u2c.Adapter, *crspace.Space, memory) {
	t.Helper()
	regs := memory{crspace.RegDeviceID: crspace.ConnectX3}
	fake := u2cfake.New(u2cfake.Config{Serial: 0x1234, Faults: f, Targets: map[uint8]u2cfake.Target{
		crspace.Address: u2cfake.CRSpace(regs)}})
	a, err := u2c.Open(t.Context(), fake, c)
	require.NoError(t, err)
	return fake, a, crspace.New(a, crspace.Config{AllowWrites: true}), regs
}

// TestRegisters checks that registers that are written are read again, at all limits of transactions.
func TestRegisters(t *testing.T) {
	for _, batch := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			fake, a, s, regs := card(t, u2cfake.Faults{Stale: [][]byte{{1, 2}, {0}}}, u2c.Config{BatchReads: batch})
			assert.Equal(t, uint32(0x1234), a.Info().Serial)
			r := rand.New(rand.NewPCG(1, 2))
			want := maps.Clone(regs)
			for _, n := range []int{1, 7, 8, 9, 15, 16, 17, 40} {
				at := uint32(r.IntN(crspace.Size/8)) * 4
				v := make([]uint32, n)
				for i := range v {
					v[i] = r.Uint32()
					want[at+4*uint32(i)] = v[i]
				}
				require.NoError(t, s.WriteBlock(t.Context(), at, v))
				got := make([]uint32, n)
				require.NoError(t, s.ReadBlock(t.Context(), at, got))
				assert.Equal(t, v, got)
			}
			assert.Equal(t, want, regs)
			assert.True(t, fake.IsIdle())
			l, err := a.Scan(t.Context())
			require.NoError(t, err)
			assert.Equal(t, []uint8{crspace.Address}, l)
		})
	}
}

// TestGolden checks all bytes that the read of one register sends.
func TestGolden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake, _, s, _ := card(t, u2cfake.Faults{}, u2c.Config{})
		before, transfers := len(fake.Sent()), fake.NumTransfers()
		v, err := s.Read32(t.Context(), crspace.RegDeviceID)
		require.NoError(t, err)
		assert.Equal(t, uint32(crspace.ConnectX3), v)
		assert.Equal(t, "0c13901300130f130013140e139114011401140114000d", hex.EncodeToString(fake.Sent()[before:]))
		assert.Equal(t, 5, fake.NumTransfers()-transfers)
	})
}

// TestFaults checks the error of each fault, and that the register is read after it.
func TestFaults(t *testing.T) {
	const first = 6 // commands of the initialization: 5
	at := func(n int, f func([]byte) [][]byte) func(int, []byte) [][]byte {
		return func(i int, reply []byte) [][]byte {
			if i == n {
				return f(reply)
			}
			return [][]byte{reply}
		}
	}
	for _, tt := range []struct {
		name   string
		faults u2cfake.Faults
		want   error
	}{
		{"no acknowledge of the address", u2cfake.Faults{NACKByte: 1}, u2c.ErrNoTarget},
		{"no acknowledge of a byte", u2cfake.Faults{NACKByte: 3}, u2c.ErrNACK},
		{"no acknowledge of the second address", u2cfake.Faults{NACKByte: 6}, u2c.ErrNoTarget},
		{"a short answer", u2cfake.Faults{Reply: at(first+8, func(b []byte) [][]byte { return [][]byte{b[:1]} })},
			u2c.ErrReply},
		{"a lost answer", u2cfake.Faults{Reply: at(first+11, func([]byte) [][]byte { return nil })}, u2c.ErrTimeout},
		{"two answers", u2cfake.Faults{Reply: at(first+9, func(b []byte) [][]byte { return [][]byte{b, {1, 2, 0}} })},
			u2c.ErrReply},
		{"a failure", u2cfake.Faults{Reply: at(first+7, func([]byte) [][]byte { return [][]byte{{1}} })},
			u2c.ErrStatus},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake, _, s, _ := card(t, tt.faults, u2c.Config{})
				_, err := s.Read32(t.Context(), crspace.RegDeviceID)
				require.ErrorIs(t, err, tt.want)
				assert.True(t, fake.IsIdle())
				v, err := s.Read32(t.Context(), crspace.RegDeviceID)
				require.NoError(t, err)
				assert.Equal(t, uint32(crspace.ConnectX3), v)
			})
		})
	}
}

func TestNoCard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := u2cfake.New(u2cfake.Config{})
		a, err := u2c.Open(t.Context(), fake, u2c.Config{})
		require.NoError(t, err)
		_, _, err = crspace.Find(t.Context(), a, crspace.Config{})
		require.ErrorIs(t, err, u2c.ErrNoTarget)
		assert.ErrorContains(t, err, "target 0x48")
		assert.ErrorContains(t, err, "target 0x47")
		require.NoError(t, a.Close())
		assert.True(t, fake.IsClosed())
	})
}

// TestUnplugged checks every point of a session at which the adapter can go.
func TestUnplugged(t *testing.T) {
	for n := 1; n < 12; n++ {
		synctest.Test(t, func(t *testing.T) {
			regs := memory{}
			fake := u2cfake.New(u2cfake.Config{Faults: u2cfake.Faults{UnplugAfter: n},
				Targets: map[uint8]u2cfake.Target{crspace.Address: u2cfake.CRSpace(regs)}})
			a, err := u2c.Open(t.Context(), fake, u2c.Config{})
			if err == nil {
				s := crspace.New(a, crspace.Config{})
				for err == nil {
					_, err = s.Read32(t.Context(), 0)
				}
				assert.NoError(t, a.Close())
			}
			require.ErrorIs(t, err, u2c.ErrUnplugged)
			assert.True(t, fake.IsClosed())
		})
	}
}

// TestUnpluggedWhileReading checks that a waiting read ends.
func TestUnpluggedWhileReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := u2cfake.New(u2cfake.Config{})
		ended := make(chan error)
		go func() {
			_, err := fake.Read(context.Background(), make([]byte, 8))
			ended <- err
		}()
		synctest.Wait()
		fake.Unplug()
		assert.ErrorIs(t, <-ended, u2c.ErrUnplugged)
		_, err := fake.Write(t.Context(), []byte{byte(u2c.OpStop)})
		assert.ErrorIs(t, err, u2c.ErrUnplugged)
	})
}

func TestRecover(t *testing.T) {
	for _, tt := range []struct {
		pulses int
		want   error
	}{{0, nil}, {1, nil}, {9, nil}, {10, u2c.ErrBus}} {
		synctest.Test(t, func(t *testing.T) {
			_, a, s, _ := card(t, u2cfake.Faults{StuckPulses: tt.pulses}, u2c.Config{})
			_, err := s.Read32(t.Context(), crspace.RegDeviceID)
			assert.Equal(t, tt.pulses == 0, err == nil)
			err = a.Recover(t.Context())
			require.ErrorIs(t, err, tt.want)
			if tt.want == nil {
				_, err = s.Read32(t.Context(), crspace.RegDeviceID)
				assert.NoError(t, err)
			}
		})
	}
}

// FuzzCommands checks that the adapter answers any bytes, with one message for each command.
func FuzzCommands(f *testing.F) {
	f.Add([]byte{0x0c, 0x13, 0x90, 0x13, 0, 0x13, 0x0f, 0x13, 0, 0x13, 0x14, 0x0e, 0x13, 0x91, 0x14, 1, 0x14, 0, 0x0d})
	f.Add([]byte{0x14, 1, 0x13, 0x91, 0x0c, 0x13})
	f.Fuzz(func(t *testing.T, out []byte) {
		n := 0
		fake := u2cfake.New(u2cfake.Config{
			Targets: map[uint8]u2cfake.Target{crspace.Address: u2cfake.CRSpace(memory{})},
			Faults:  u2cfake.Faults{Reply: func(i int, b []byte) [][]byte { n = i; return [][]byte{b} }}})
		sent, err := fake.Write(t.Context(), out)
		require.NoError(t, err)
		require.Equal(t, len(out), sent)
		for range n {
			got, err := fake.Read(t.Context(), make([]byte, 256))
			require.NoError(t, err)
			require.Positive(t, got)
		}
		done, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = fake.Read(done, make([]byte, 256))
		require.ErrorIs(t, err, context.Canceled)
	})
}
