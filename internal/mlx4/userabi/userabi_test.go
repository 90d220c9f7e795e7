package userabi

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestAnswers encodes and decodes answers of all kinds, and rejects others.
func TestAnswers(t *testing.T) {
	check(t, Open{Size: 1 << 26, Caps: 7, MaxReadSGEs: 3, Atomicity: 1, CQEShift: 6}, OpenSize)
	check(t, CQ{Offset: 4096, Number: 130, Doorbell: DoorbellCQ + 3, Log: 5}, CQSize)
	check(t, SRQ{Offset: 8192, Log: 4, Shift: 6, MaxSGE: 3}, SRQSize)
	check(t, QP{Offset: 1 << 20, Number: 0x71, SendLog: 6, RecvAt: 4096, HasRecv: 1, MaxInline: 64}, QPSize)
	check(t, AV{Address: [AddressSize]byte{1, 39: 2}, Port: 2, IsBad: 1}, AVSize)
}

func check[T Answer](t *testing.T, want T, size int) {
	b := Encode(&want)
	require.Len(t, b, size)
	var got T
	require.NoError(t, Decode(b, &got))
	assert.Equal(t, want, got)
	assert.ErrorContains(t, Decode(b[1:], &got), "want")
	assert.ErrorContains(t, Decode(append(b, 0), &got), "want")
}

// TestHeader rings doorbells in random order, and takes each once, those of CQs first.
func TestHeader(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := OpenHeader(pages(1))
		assert.False(t, h.Take(func(uint32) { t.Fatal("none was rung") }))
		for range 3 {
			rung := rapid.SliceOfN(rapid.Uint32Range(0, 2*MaxQPs-1), 1, 100).Draw(t, "doorbells")
			want := map[uint32]bool{}
			for _, d := range rung {
				want[d] = true
				assert.False(t, h.Ring(d), "the driver is awake")
			}
			got := map[uint32]bool{}
			last := uint32(2 * MaxQPs)
			assert.True(t, h.Take(func(d uint32) {
				assert.False(t, got[d])
				assert.False(t, last < DoorbellCQ && d >= DoorbellCQ, "a CQ behind a QP")
				got[d], last = true, d
			}))
			assert.Equal(t, want, got)
			assert.False(t, h.Take(func(uint32) {}))
		}
		h.Sleep()
		assert.True(t, h.Ring(5))
		assert.False(t, h.Ring(5), "woken already")
		h.Wake()
		assert.False(t, h.HasFailed())
		h.Fail()
		assert.True(t, h.HasFailed())
	})
}

// TestHeaderGarbage takes doorbells from a header of ones: numbers remain in range.
func TestHeaderGarbage(t *testing.T) {
	b := pages(1)
	for i := range b {
		b[i] = 0xff
	}
	count := 0
	OpenHeader(b).Take(func(d uint32) {
		assert.Less(t, d, uint32(2*MaxQPs))
		count++
	})
	assert.Equal(t, 2*MaxQPs, count)
}

// TestNoDoorbellLost has two rings of doorbells for a driver that sleeps: each is seen, or the driver is woken.
func TestNoDoorbellLost(t *testing.T) {
	h := OpenHeader(pages(1))
	const rounds = 20000
	wake := make(chan struct{}, 1)
	for _, d := range []uint32{3, DoorbellCQ + 70} {
		seen := make(chan struct{}, 1)
		stop, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for {
				if h.Take(func(n uint32) {
					assert.Equal(t, d, n)
					seen <- struct{}{}
				}) {
					continue
				}
				h.Sleep()
				if h.Take(func(uint32) { seen <- struct{}{} }) {
					h.Wake()
					continue
				}
				select {
				case <-wake:
				case <-stop:
					return
				}
			}
		}()
		for i := range rounds {
			if h.Ring(d) {
				select {
				case wake <- struct{}{}:
				default:
				}
			}
			<-seen
			if i%16 == 0 {
				runtime.Gosched()
			}
		}
		close(stop)
		<-ended
		h.Wake()
	}
}

// TestControl writes and reads control words.
func TestControl(t *testing.T) {
	b := pages(1)
	c := OpenControl(b)
	require.Len(t, c.Record(), RecordSize)
	assert.Equal(t, State{}, c.State())
	for _, s := range []State{{1, 2, true}, {255, 1, false}, {0, 255, true}} {
		c.SetState(s)
		assert.Equal(t, s, c.State())
	}
	c.SetEvents(1 << 31)
	assert.EqualValues(t, 1<<31, c.Events())
	assert.Equal(t, make([]byte, RecordSize), c.Record(), "on another cache line")
	copy(c.Record()[4:], []byte{0x12, 0x34, 0x56, 0x78})
	assert.EqualValues(t, 0x12345678, c.Arm())

	_, ok := c.TakeBad()
	assert.False(t, ok)
	c.ReportBad(0xff000047)
	qpn, ok := c.TakeBad()
	assert.True(t, ok)
	assert.EqualValues(t, 0x47, qpn)
	_, ok = c.TakeBad()
	assert.False(t, ok)
	assert.EqualValues(t, 1<<31, c.Events())
}
