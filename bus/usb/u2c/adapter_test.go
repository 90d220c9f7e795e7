package u2c

import (
	"bytes"
	"context"
	"encoding/hex"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A wire is a pipe whose answers a test supplies. A read without a message waits for its context.
type wire struct {
	sent   [][]byte
	in     [][]byte
	reply  func(n int, out []byte) [][]byte // for OUT transfer n, counted from 0
	errOut error
	errIn  error
	closed int
}

func (w *wire) Write(_ context.Context, b []byte) (int, error) {
	if w.errOut != nil {
		return 0, w.errOut
	}
	w.sent = append(w.sent, bytes.Clone(b))
	w.in = append(w.in, w.reply(len(w.sent)-1, b)...)
	return len(b), nil
}

func (w *wire) Read(ctx context.Context, b []byte) (int, error) {
	if w.errIn != nil {
		return 0, w.errIn
	}
	if len(w.in) == 0 {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	n := copy(b, w.in[0])
	w.in = w.in[1:]
	return n, nil
}

func (w *wire) Close() error { w.closed++; return nil }

// answers are the good answers to the commands of an OUT transfer.
func answers(out []byte) [][]byte {
	var l [][]byte
	for len(out) > 0 {
		f := formats[Opcode(out[0])]
		out = out[1+f.args:]
		l = append(l, append(bytes.Repeat([]byte{0xa5}, max(f.payload, 0)), byte(StatusOK)))
	}
	return l
}

// newWire returns a wire with good answers.
func newWire() *wire { return &wire{reply: func(_ int, out []byte) [][]byte { return answers(out) }} }

// transfers returns OUT transfers as hexadecimal digits.
func transfers(l [][]byte) string {
	var s []string
	for _, b := range l {
		s = append(s, hex.EncodeToString(b))
	}
	return strings.Join(s, " ")
}

// open returns an adapter at a wire that has seen no transfer since.
func open(t *testing.T, w *wire, c Config) *Adapter {
	t.Helper()
	a, err := Open(t.Context(), w, c)
	require.NoError(t, err)
	w.sent = nil
	return a
}

// TestOpen checks the bytes of the initialization.
func TestOpen(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"standard", Config{}, "0a 0b 1b01240126c800"},
		{"fast, without stretching", Config{Speed: SpeedFast}, "0a 0b 1b002400"},
		{"50 kHz", Config{Speed: 50_000}, "0a 0b 1b06240126c800"},
		{"slowest", Config{Speed: SpeedSlowest}, "0a 0b 1bea240126c800"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWire()
				w.in = [][]byte{{1, 2, 3}, {0}} // of an earlier user
				a, err := Open(t.Context(), w, tt.cfg)
				require.NoError(t, err)
				assert.Equal(t, tt.want, transfers(w.sent))
				assert.Equal(t, Info{Serial: 0xa5a5a5a5, Major: 0xa5, Minor: 0xa5}, a.Info())
				assert.NoError(t, a.Close())
				assert.NoError(t, a.Close())
				assert.Equal(t, 1, w.closed)
				assert.ErrorIs(t, a.Write(t.Context(), 1, []byte{1}), ErrClosed)
			})
		})
	}
}

func TestOpenFails(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name string
		ctx  context.Context
		cfg  Config
		wire *wire
		want error
		text string
	}{
		{"speed", t.Context(), Config{Speed: 200_000}, newWire(), nil, "200000 Hz"},
		{"slow", t.Context(), Config{Speed: 1}, newWire(), nil, "speed 1 Hz"},
		{"unplugged", t.Context(), Config{}, &wire{errIn: ErrUnplugged}, ErrUnplugged, ""},
		{"canceled", canceled, Config{}, newWire(), context.Canceled, ""},
		{"silent", t.Context(), Config{}, &wire{reply: func(int, []byte) [][]byte { return nil }}, ErrTimeout,
			"GET_FW_VERSION"},
		{"endless", t.Context(), Config{}, &wire{in: make([][]byte, maxStale+2)}, ErrReply, "without a command"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, err := Open(tt.ctx, tt.wire, tt.cfg)
				require.Error(t, err)
				if tt.want != nil {
					assert.ErrorIs(t, err, tt.want)
				}
				assert.ErrorContains(t, err, tt.text)
				assert.Equal(t, 1, tt.wire.closed)
			})
		})
	}
}

// TestTransactions checks the bytes of transactions. The first one is a read of register 0xf0014.
func TestTransactions(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  Config
		run  func(context.Context, *Adapter) error
		want string
	}{
		{"register", Config{BatchReads: true}, func(ctx context.Context, a *Adapter) error {
			return a.WriteRead(ctx, 0x48, []byte{0, 0x0f, 0, 0x14}, make([]byte, 4))
		}, "0c13901300130f130013140e13911401140114011400 0d"},
		{"byte by byte", Config{}, func(ctx context.Context, a *Adapter) error {
			return a.WriteRead(ctx, 0x48, []byte{0, 0x0f, 0, 0x14}, make([]byte, 4))
		}, "0c13901300130f130013140e13911401 1401 1401 1400 0d"},
		{"read only", Config{}, func(ctx context.Context, a *Adapter) error {
			return a.WriteRead(ctx, 0x50, nil, make([]byte, 1))
		}, "0c13a11400 0d"},
		{"write", Config{}, func(ctx context.Context, a *Adapter) error { return a.Write(ctx, 0x48, []byte{1, 2}) },
			"0c139013011302 0d"},
		{"a full transfer", Config{}, func(ctx context.Context, a *Adapter) error {
			return a.Write(ctx, 0x48, make([]byte, 62))
		}, "0c1390" + strings.Repeat("1300", 60) + " 13001300 0d"},
		{"scan", Config{}, func(ctx context.Context, a *Adapter) error { _, err := a.Scan(ctx); return err }, "03"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWire()
				a := open(t, w, tt.cfg)
				require.NoError(t, tt.run(t.Context(), a))
				assert.Equal(t, tt.want, transfers(w.sent))
				for _, b := range w.sent {
					assert.LessOrEqual(t, len(b), maxOut)
				}
			})
		})
	}
}

// TestFailures checks the error of each bad answer, that STOP follows, and that the next transaction succeeds.
func TestFailures(t *testing.T) {
	status := func(s Status) []byte { return []byte{byte(s)} }
	for _, tt := range []struct {
		name  string
		at    int    // command, counted from 0: START, address, byte, REPEATED_START, address, read, read
		reply []byte // nil: none
		want  error
		text  string
	}{
		{"no target", 1, status(StatusNACK), ErrNoTarget, "target 0x48"},
		{"no target for the read", 4, status(StatusNACK), ErrNoTarget, ""},
		{"byte not acknowledged", 2, status(StatusNACK), ErrNACK, "PUT_BYTE_ACK: not acknowledged"},
		{"timeout on the bus", 5, status(StatusTimeout), ErrTimeout, ""},
		{"failed", 0, status(StatusFailed), ErrStatus, "START: failed"},
		{"unknown status", 0, status(0xee), ErrStatus, "status 0xee"},
		{"failure with payload", 6, []byte{1, 2, 3, byte(StatusDataError)}, ErrStatus, "data error"},
		{"short", 5, status(StatusOK), ErrReply, "0 bytes of payload, want 1"},
		{"long", 5, []byte{1, 2, 0}, ErrReply, "2 bytes of payload, want 1"},
		{"longer than any", 3, make([]byte, maxIn), ErrReply, "255 bytes"},
		{"empty", 2, []byte{}, ErrReply, "empty"},
		{"missing", 6, nil, ErrTimeout, "GET_BYTE_ACK"},
		{"missing in the middle", 1, nil, ErrReply, "1 bytes of payload, want 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWire()
				a := open(t, w, Config{BatchReads: true})
				w.reply = func(n int, out []byte) [][]byte {
					l := answers(out)
					if n > 0 {
						return l
					}
					if tt.reply == nil {
						return append(l[:tt.at], l[tt.at+1:]...)
					}
					l[tt.at] = tt.reply
					return l
				}
				err := a.WriteRead(t.Context(), 0x48, []byte{7}, make([]byte, 2))
				require.ErrorIs(t, err, tt.want)
				assert.ErrorContains(t, err, tt.text)
				assert.Equal(t, "0d", transfers(w.sent[1:]))
				assert.Empty(t, w.in)
				r := make([]byte, 2)
				require.NoError(t, a.WriteRead(t.Context(), 0x48, []byte{7}, r))
				assert.Equal(t, []byte{0xa5, 0xa5}, r)
			})
		})
	}
}

// TestFailureEndsTransaction checks that no OUT transfer but that of STOP follows a failure.
func TestFailureEndsTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		a := open(t, w, Config{})
		w.reply = func(n int, out []byte) [][]byte {
			l := answers(out)
			if n == 0 {
				l[1] = []byte{byte(StatusNACK)}
			}
			return l
		}
		require.ErrorIs(t, a.Write(t.Context(), 0x48, make([]byte, 300)), ErrNoTarget)
		require.Len(t, w.sent, 2)
		assert.Equal(t, "0d", transfers(w.sent[1:]))
	})
}

// TestCanceled checks that STOP is sent after the caller's context has ended.
func TestCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		a := open(t, w, Config{})
		ctx, cancel := context.WithTimeout(t.Context(), messageTimeout/2)
		defer cancel()
		w.reply = func(n int, out []byte) [][]byte {
			if n == 0 {
				return nil
			}
			return answers(out)
		}
		start := time.Now()
		require.ErrorIs(t, a.Write(ctx, 0x48, []byte{1}), context.DeadlineExceeded)
		assert.Equal(t, "0d", transfers(w.sent[1:]))
		assert.LessOrEqual(t, time.Since(start), 3*messageTimeout)
	})
}

func TestUnplugged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		a := open(t, w, Config{})
		w.errOut, w.errIn = ErrUnplugged, ErrUnplugged
		require.ErrorIs(t, a.Write(t.Context(), 0x48, []byte{1}), ErrUnplugged)
		_, err := a.Scan(t.Context())
		require.ErrorIs(t, err, ErrUnplugged)
		require.ErrorIs(t, a.Recover(t.Context()), ErrUnplugged)
	})
}

func TestArguments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		a := open(t, w, Config{})
		assert.ErrorContains(t, a.Write(t.Context(), 0x80, []byte{1}), "I2C address 0x80")
		assert.ErrorContains(t, a.Write(t.Context(), 0x48, nil), "no bytes to write")
		assert.ErrorContains(t, a.WriteRead(t.Context(), 0x48, []byte{1}, nil), "no bytes to read")
		assert.ErrorContains(t, a.Write(t.Context(), 0x48, make([]byte, maxTransaction+1)), "4097 bytes")
		assert.Empty(t, w.sent)
	})
}

func TestNames(t *testing.T) {
	assert.Equal(t, "PUT_BYTE_ACK", OpPutByteAck.String())
	assert.Equal(t, "command 0xfe", Opcode(0xfe).String())
	n, ok := OpSetClockSyncTO.NumArgs()
	assert.Equal(t, 2, n)
	assert.True(t, ok)
	_, ok = Opcode(0xfe).NumArgs()
	assert.False(t, ok)
	assert.Equal(t, "not acknowledged", StatusNACK.String())
}

// FuzzParseReply checks the decoder against the format of the answers.
func FuzzParseReply(f *testing.F) {
	f.Add(uint8(OpGetByteAck), []byte{0xa5, 0})
	f.Add(uint8(OpSerial), []byte{1, 2, 3, 0})
	f.Add(uint8(OpScan), []byte{0x48, 0x50, 0})
	f.Add(uint8(OpPutByteAck), []byte{7})
	f.Add(uint8(OpStop), []byte{})
	f.Fuzz(func(t *testing.T, op uint8, msg []byte) {
		payload, err := parseReply(Opcode(op), msg)
		if err != nil {
			assert.Nil(t, payload)
			assert.Equal(t, len(msg) > 0 && msg[len(msg)-1] != 0, isFailure(err))
			return
		}
		require.NotEmpty(t, msg)
		assert.Equal(t, msg[:len(msg)-1], payload)
		assert.Zero(t, msg[len(msg)-1])
		if want := formats[Opcode(op)].payload; want != anyLength {
			assert.Len(t, payload, want)
		}
	})
}

// FuzzAnswers feeds arbitrary messages to an adapter. It returns from every call in time, and works again when the
// messages are good.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte{1, 0, 1, 0, 1, 7, 0, 2, 1, 0})
	f.Add([]byte{255, 255, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		synctest.Test(t, func(t *testing.T) {
			w := newWire()
			a := open(t, w, Config{})
			w.reply = func(_ int, out []byte) [][]byte {
				var l [][]byte
				for range len(answers(out)) + 1 {
					if len(data) == 0 {
						break
					}
					n := min(int(data[0]), len(data)-1)
					l = append(l, data[1:1+n])
					data = data[1+n:]
				}
				return l
			}
			r := make([]byte, 3)
			_ = a.WriteRead(t.Context(), 0x48, []byte{1, 2}, r) // whether it succeeds depends on the messages
			_, _ = a.Scan(t.Context())
			_ = a.Recover(t.Context())
			w.reply, w.in = func(_ int, out []byte) [][]byte { return answers(out) }, nil
			require.NoError(t, a.WriteRead(t.Context(), 0x48, []byte{1, 2}, r))
			assert.Equal(t, []byte{0xa5, 0xa5, 0xa5}, r)
		})
	})
}
