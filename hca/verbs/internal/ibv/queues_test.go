//go:build linux && (amd64 || arm64)

package ibv

import (
	"syscall"
	"testing"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"
)

// labs returns the address of the C library's labs, which stands for a function of a provider: it returns its first
// argument, the queue, as the result.
func labs(t testing.TB) uintptr {
	libc, err := purego.Dlopen("libc.so.6", purego.RTLD_NOW)
	require.NoError(t, err)
	fn, err := purego.Dlsym(libc, "labs")
	require.NoError(t, err)
	return fn
}

// TestPostResults interprets the results of providers.
func TestPostResults(t *testing.T) {
	for _, c := range []struct {
		result uintptr
		want   error
	}{
		{0, nil},
		{uintptr(syscall.ENOMEM), syscall.ENOMEM},
	} {
		l := newList[SendWR](labs(t), c.result, 4, 2, 8)
		wr, sges := l.Add(2)
		wr.ID, wr.Opcode = 1, WRSend
		require.Len(t, sges, 2)
		_, sges = l.Add(1)
		sges[0] = l.Inline([]byte("12345678"))
		require.EqualValues(t, 8, sges[0].Length)
		n, err := l.Post()
		require.Equal(t, c.want, err)
		if c.want == nil {
			require.Equal(t, 2, n)
			require.NotZero(t, l.wrs[0].next)
			require.Zero(t, l.wrs[1].next)
		} else {
			require.Zero(t, n, "a provider that reports no request has accepted none")
		}
		n, err = l.Post()
		require.NoError(t, err)
		require.Zero(t, n, "an empty list")
	}
}

// TestPollResults rejects numbers of completions that a provider cannot have returned.
func TestPollResults(t *testing.T) {
	for _, c := range []struct {
		result uintptr
		n      int
		err    error
	}{{0, 0, nil}, {3, 3, nil}, {5, 0, syscall.EOVERFLOW}} {
		p := &Poller{fn: labs(t), wcs: heapSlice[WC](4), args: [3]uintptr{c.result}}
		list, err := p.Poll(4)
		require.Equal(t, c.err, err)
		require.Len(t, list, c.n)
	}
}

// TestDataPath requires that posting and polling allocate nothing.
func TestDataPath(t *testing.T) {
	l := newList[SendWR](labs(t), 0, 16, 1, 64)
	p := &Poller{fn: labs(t), wcs: heapSlice[WC](16)}
	data := make([]byte, 64)
	n := testing.AllocsPerRun(100, func() {
		for !l.Full() {
			wr, sges := l.Add(1)
			wr.Opcode, wr.Flags = WRSend, SendInline
			sges[0] = l.Inline(data)
		}
		if k, err := l.Post(); k != 16 || err != nil {
			panic("post")
		}
		if _, err := p.Poll(16); err != nil {
			panic("poll")
		}
	})
	require.Zero(t, n)
}

// BenchmarkCall measures one call of the library.
func BenchmarkCall(b *testing.B) {
	p := &Poller{fn: labs(b), wcs: heapSlice[WC](1)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Poll(1); err != nil {
			b.Fatal(err)
		}
	}
}

// TestErrno interprets the results of functions.
func TestErrno(t *testing.T) {
	for _, c := range []struct {
		r, errno int32
		want     error
	}{
		{0, 5, nil}, {22, 0, syscall.EINVAL}, {-22, 0, syscall.EINVAL}, {-1, 11, syscall.EAGAIN}, {-1, 0, syscall.EIO},
	} {
		require.Equal(t, c.want, errnoOf(c.r, func() int32 { return c.errno }))
	}
}
