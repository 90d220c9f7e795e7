package main

import (
	"context"
	"encoding/json"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/ci"
	"ciddk/examples/perftest/exchange"
	"ciddk/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Addresses that no other test uses: there is one program per address and UDP port 4791.
const (
	serverIP = "127.20.18.1"
	clientIP = "127.20.18.2"
	port     = "18515"
)

// A program is a run of the command on a goroutine.
type program struct {
	out  testenv.Output
	done chan error
	stop context.CancelFunc
}

// start runs the command, and returns when its output contains text.
func start(t *testing.T, text string, args ...string) *program {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	p := &program{done: make(chan error, 1), stop: cancel}
	seen := p.out.Seen(text)
	go func() { p.done <- command(ctx, args, &p.out) }()
	if text == "" {
		return p
	}
	select {
	case <-seen:
	case err := <-p.done:
		require.Fail(t, "ended without "+text, "%v", err)
	}
	return p
}

func (p *program) end() (string, error) {
	err := <-p.done
	return p.out.String(), err
}

// serve starts a server with a long timeout, which sleeps instead of polling.
func serve(t *testing.T, args ...string) *program {
	t.Helper()
	return start(t, "Waiting for a client at", append(args, "-d", serverIP, "-e", "-u", "18")...)
}

func call(t *testing.T, args ...string) *program {
	t.Helper()
	return start(t, "", append(args, "-d", clientIP, "-e", "-u", "18", serverIP)...)
}

// rows returns the first two columns of a table's rows.
func rows(out string) [][]string {
	var list [][]string
	_, table, _ := strings.Cut(out, "#bytes")
	for l := range strings.Lines(table) {
		if f := strings.Fields(l); len(f) >= 4 && strings.Trim(f[0], "0123456789") == "" {
			list = append(list, f[:2])
		}
	}
	return list
}

// This test runs every test over every service, over TCP and RDMA CM, one way and both ways, between two of these
// programs.
func TestPair(t *testing.T) {
	testenv.Addresses(t, testenv.RoCEv2Port, serverIP, clientIP)
	for v := range verbNames {
		for _, latency := range []bool{false, true} {
			k := test{verb(v), latency}
			for _, s := range k.services() {
				for _, mode := range [][]string{nil, {"-R"}, {"-b"}, {"-R", "-b"}, {"-z"}} {
					name := strings.Join(mode, "")
					if (strings.Contains(name, "-R") && s == service(ci.UC)) ||
						(strings.Contains(name, "-b") && latency) {
						continue
					}
					t.Run(k.String()+s.String()+name, func(t *testing.T) {
						args := append([]string{k.String(), "-c", s.String(), "-n", "20"}, mode...)
						size := "8"
						if k.verb != atomic {
							size = "3000"
							args = append(args, "-s", size)
						}
						pair(t, args, k, [][]string{{size, "20"}})
					})
				}
			}
		}
	}
}

// pair runs both sides and checks their tables.
func pair(t *testing.T, args []string, k test, want [][]string) (client, server string) {
	t.Helper()
	s := serve(t, args...)
	c := call(t, args...)
	client, cerr := c.end()
	server, serr := s.end()
	require.NoError(t, cerr, server)
	require.NoError(t, serr, client)
	assert.Equal(t, want, rows(client), client)
	if k.oneSided() && k.latency {
		want = nil
	} else if k.oneSided() && len(want) > 1 {
		want = want[len(want)-1:]
	}
	assert.Equal(t, want, rows(server), server)
	return client, server
}

func TestOptionsOfBoth(t *testing.T) {
	testenv.Addresses(t, testenv.RoCEv2Port, serverIP, clientIP)
	tests := map[string]struct {
		args string
		rows [][]string
	}{
		"several queue pairs":        {"send_bw -q 3 -n 30 -s 100", [][]string{{"100", "90"}}},
		"lists":                      {"write_bw -q 2 -n 30 -s 100 -l 10", [][]string{{"100", "60"}}},
		"lists with moderation":      {"write_bw -n 30 -s 100 -l 10 -Q 5", [][]string{{"100", "30"}}},
		"both ways, lists, inline":   {"send_bw -b -q 2 -n 30 -s 30 -l 3 -I 32", [][]string{{"30", "60"}}},
		"short queues":               {"send_bw -t 1 -r 1 -n 20 -s 5000", [][]string{{"5000", "20"}}},
		"odd counts":                 {"send_bw -t 7 -r 5 -Q 3 -n 23 -s 50", [][]string{{"50", "23"}}},
		"path MTU":                   {"read_bw -m 256 -n 10 -s 5000", [][]string{{"5000", "10"}}},
		"reads":                      {"read_bw -o 2 -n 30 -s 100", [][]string{{"100", "30"}}},
		"compare and swap":           {"atomic_bw -A CMP_AND_SWAP -n 30", [][]string{{"8", "30"}}},
		"inline latency":             {"write_lat -I 64 -n 300 -s 64", [][]string{{"64", "300"}}},
		"gigabits":                   {"write_bw --report_gbits -n 10 -s 100 -N", [][]string{{"100", "10"}}},
		"datagrams of the path MTU":  {"send_bw -c UD -n 10 -m 512", [][]string{{"512", "10"}}},
		"queue pairs of datagrams":   {"send_bw -c UD -n 10 -s 100 -R -b -q 2", [][]string{{"100", "20"}}},
		"all sizes of datagrams":     {"send_lat -c UD -n 5 -a -m 256", powers(256, "5")},
		"all sizes of datagrams, bw": {"send_bw -c UD -n 5 -a -m 256 -b", powers(256, "5")},
		"perftest's name, and -F":    {"ib_send_lat -n 5 -F -x 0", [][]string{{"2", "5"}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			args := strings.Fields(tt.args)
			var k test
			require.NoError(t, k.UnmarshalText([]byte(args[0])))
			pair(t, args, k, tt.rows)
		})
	}
}

// powers returns the rows of all sizes.
func powers(largest int, iters string) [][]string {
	var list [][]string
	for n := 2; n <= largest; n *= 2 {
		list = append(list, []string{strconv.Itoa(n), iters})
	}
	return list
}

// With -a, the sides of write_lat exchange no messages between two sizes, and those of the one-sided tests only at the
// end.
func TestAllSizes(t *testing.T) {
	if testing.Short() {
		t.Skip("moves messages of 8 MiB")
	}
	testenv.Addresses(t, testenv.RoCEv2Port, serverIP, clientIP)
	for _, name := range []string{"send_bw", "write_lat", "read_lat", "write_bw"} {
		t.Run(name, func(t *testing.T) {
			var k test
			require.NoError(t, k.UnmarshalText([]byte(name)))
			pair(t, []string{name, "-a", "-n", "5", "-t", "2", "-r", "2"}, k, powers(maxSize, "5"))
		})
	}
}

// With -D both sides stop by time.
func TestDuration(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a second for each test")
	}
	testenv.Addresses(t, testenv.RoCEv2Port, serverIP, clientIP)
	for _, args := range []string{"send_bw", "send_bw -b", "send_lat", "write_lat", "read_bw", "read_lat",
		"write_bw -R", "send_bw -c UD"} {
		t.Run(args, func(t *testing.T) {
			a := append(strings.Fields(args), "-D", "1", "-s", "64")
			s := serve(t, a...)
			c := call(t, a...)
			out, err := c.end()
			require.NoError(t, err)
			_, err = s.end()
			require.NoError(t, err)
			require.Len(t, rows(out), 1, out)
			assert.NotEqual(t, "0", rows(out)[0][1], out)
		})
	}
}

func TestJSON(t *testing.T) {
	testenv.Addresses(t, testenv.RoCEv2Port, serverIP, clientIP)
	s := serve(t, "send_bw", "-n", "20", "-s", "100", "-q", "2")
	c := call(t, "send_bw", "-n", "20", "-s", "100", "-q", "2", "--json")
	out, err := c.end()
	require.NoError(t, err)
	_, err = s.end()
	require.NoError(t, err)
	var d struct {
		document
		Results []bandwidthResult `json:"results"`
	}
	require.NoError(t, json.Unmarshal([]byte(out), &d), out)
	assert.Equal(t, "send_bw", d.Test)
	assert.Equal(t, "client", d.Role)
	assert.Equal(t, "RC", d.Connection)
	assert.Equal(t, exchange.Version, d.Version)
	require.Len(t, d.QPs, 2)
	assert.Equal(t, clientIP, d.QPs[0].Local.GID.String())
	assert.Equal(t, serverIP, d.QPs[1].Remote.GID.String())
	require.Len(t, d.Results, 1)
	r := d.Results[0]
	assert.Equal(t, []uint64{100, 40}, []uint64{r.Size, r.Iters})
	assert.Positive(t, r.Average)
	assert.GreaterOrEqual(t, r.Peak, r.Average)
	assert.InEpsilon(t, r.Average, r.Rate*1e6*100/(1<<20), 1e-6)
}

// A side that can detect a difference between the options reports it.
func TestMismatch(t *testing.T) {
	testenv.Addresses(t, testenv.RoCEv2Port, serverIP, clientIP)
	tests := map[string]struct {
		server, client string
		want           string // in the error of either side
	}{
		"size of messages": {"send_bw -s 100 -n 20", "send_bw -s 200 -n 20",
			"completion: "}, // the receive is too short
		"smaller messages": {"send_bw -s 200 -n 20", "send_bw -s 100 -n 20",
			"received a message of 100 bytes, want 200: does the peer have the same -s?"},
		"size, measured by client": {"write_bw -s 100 -n 20", "write_bw -s 200 -n 20",
			"the client measured messages of 200 bytes, and this server has -s 100"},
		"count": {"read_bw -s 100 -n 20", "read_bw -s 100 -n 30",
			"the client measured 30 messages, and this server expects 20"},
		"count, RC": {"send_bw -s 100 -n 20", "send_bw -s 100 -n 15",
			"the peer has finished, and 15 of 20 messages have arrived: give both sides the same -n"},
		"count, UD": {"send_bw -c UD -s 100 -n 20", "send_bw -c UD -s 100 -n 15",
			"5 messages were lost, as UC and UD allow"},
		"count, UC and -z": {"send_bw -c UC -z -s 100 -n 20 -q 2", "send_bw -c UC -z -s 100 -n 15 -q 2",
			"10 messages were lost, as UC and UD allow"},
		"size, both ways": {"write_bw -b -s 100 -n 20", "write_bw -b -s 200 -n 20",
			"the peer measured messages of 100 bytes, and this side of 200"},
		"number of queue pairs": {"write_bw -s 100 -n 20 -q 2", "write_bw -s 100 -n 20",
			"with the same -q, -a and -b?"},
		"kind of test": {"send_bw -s 100 -n 20 --timeout 1s", "write_lat -s 100 -n 20 --timeout 1s",
			"does the peer run the same test, with the same -c"},
		"service over RDMA CM": {"send_bw -s 100 -n 20 -R --timeout 2s", "send_bw -s 100 -n 20 -R -c UD --timeout 2s",
			"does it have the same -q and -c?"},
		"way to talk": {"send_bw -n 20", "send_bw -n 20 -z --timeout 1s", "no server: "},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := serve(t, strings.Fields(tt.server)...)
			c := call(t, strings.Fields(tt.client)...)
			_, cerr := c.end()
			if name == "way to talk" {
				s.stop()
			}
			_, serr := s.end()
			var both []string
			for _, err := range []error{cerr, serr} {
				if err != nil {
					both = append(both, err.Error())
				}
			}
			assert.Contains(t, strings.Join(both, "\n"), tt.want)
		})
	}
}

// The sides may propose different MTUs and agree on one.
func TestCommonMTU(t *testing.T) {
	testenv.Addresses(t, testenv.RoCEv2Port, serverIP, clientIP)
	s := serve(t, "send_bw", "-n", "10", "-m", "512")
	c := call(t, "send_bw", "-n", "10", "-m", "1024")
	for _, p := range []*program{c, s} {
		out, err := p.end()
		require.NoError(t, err)
		assert.Contains(t, out, "Mtu             : 512[B]")
	}
}

// A peer over TCP sends something else, sends nothing, or leaves.
func TestInvalidPeer(t *testing.T) {
	testenv.Addresses(t, testenv.RoCEv2Port, serverIP, clientIP)
	tests := map[string]struct {
		sends string // the peer then leaves, unless sends is empty
		want  string
	}{
		"another protocol": {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "not a version: is it perftest?"},
		"an old perftest": {"5.50\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
			"version 5.50 of perftest, want at least 5.70"},
		"half of it": {"6.06\x00\x00", "the peer has left"},
		"nothing":    {"", "nothing happened for 200ms"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := serve(t, "send_bw", "--timeout", "200ms")
			c, err := net.Dial("tcp", net.JoinHostPort(serverIP, port))
			require.NoError(t, err)
			defer c.Close()
			if tt.sends != "" {
				_, err = c.Write([]byte(tt.sends))
				require.NoError(t, err)
				require.NoError(t, c.Close())
			}
			_, err = s.end()
			assert.ErrorContains(t, err, tt.want)
		})
	}
}

// A peer that leaves during a transfer, and an interrupt, end the program long before the timeout.
func TestLeaving(t *testing.T) {
	testenv.Addresses(t, testenv.RoCEv2Port, serverIP, clientIP)
	for _, args := range []string{"send_bw -D 60", "send_lat -D 60", "write_lat -D 60", "write_bw -D 60",
		"read_lat -D 60", "send_bw -D 60 -R", "write_bw -D 60 -R"} {
		t.Run(args, func(t *testing.T) {
			a := append(strings.Fields(args), "-s", "64", "--timeout", "30s")
			for _, clientLeaves := range []bool{false, true} {
				began := time.Now()
				s := serve(t, a...)
				c := start(t, "local address", append(a, "-d", clientIP, "-e", serverIP)...)
				leaver, other := s, c
				if clientLeaves {
					leaver, other = c, s
				}
				leaver.stop()
				_, err := leaver.end()
				require.Error(t, err)
				_, err = other.end()
				require.Error(t, err)
				assert.Less(t, time.Since(began), 25*time.Second, "%v", err)
			}
		})
	}
	t.Run("nobody comes", func(t *testing.T) {
		for _, mode := range []string{"-e", "-R"} {
			s := serve(t, "send_bw", mode)
			s.stop()
			_, err := s.end()
			assert.ErrorIs(t, err, context.Canceled)
		}
	})
	t.Run("nobody is there", func(t *testing.T) {
		_, err := call(t, "send_bw").end()
		assert.ErrorContains(t, err, "no server")
		_, err = call(t, "send_bw", "-R", "--timeout", "200ms").end()
		assert.ErrorContains(t, err, "no server")
	})
}

func TestOptions(t *testing.T) {
	tests := map[string]string{
		"is not a test":                      "recv_bw",
		"unknown flag":                       "send_bw --what",
		"-c UD: write_bw supports only":      "write_bw -c UD",
		"-c UC: read_lat supports only":      "read_lat -c UC",
		"is not a transport service":         "send_bw -c RD",
		"does not connect UC":                "send_bw -c UC -R",
		"-b is an option of bandwidth":       "send_lat -b",
		"-q is an option of bandwidth":       "send_lat -q 2",
		"-l is an option of bandwidth":       "send_lat -l 2",
		"-s 16: atomics always have 8 bytes": "atomic_bw -s 16",
		"-a: atomics":                        "atomic_bw -a",
		"-a with -D":                         "send_bw -a -D 4",
		"-s 0: want 1 to":                    "send_bw -s 0",
		"-s 8388609":                         "send_bw -s 8388609",
		"-n 4: want 5 to":                    "send_bw -n 4",
		"-D -1":                              "send_bw --duration=-1",
		"-q 0":                               "send_bw -q 0",
		"-m 1500":                            "send_bw -m 1500",
		"-t 0":                               "send_bw -t 0",
		"-r 16001":                           "send_bw -r 16001",
		"-I 1025":                            "send_bw -I 1025",
		"-o 256":                             "read_bw -o 256",
		"-Q 0":                               "send_bw -Q 0",
		"-l 0":                               "send_bw -l 0",
		"-u 32":                              "send_bw -u 32",
		"want a positive duration":           "send_bw --timeout=0s",
		"-l 3: -n must be a multiple":        "send_bw -n 10 -l 3",
		"-l 20: want at most the depth":      "send_bw -n 20 -l 20 -t 10",
		"-Q 3: -l must be a multiple":        "send_bw -n 20 -l 4 -Q 3",
		"-f 2: -D must be more than":         "send_bw -D 4 -f 2",
		"buffers would take more":            "send_bw -q 1024 -s 8388608",
		"--listen is an option of servers":   "send_bw --listen 127.0.0.1 127.0.0.1",
		"--listen is an option of the exchange over TCP": "send_bw --listen 127.0.0.1 -R",
		"want a specific address of this":                "send_bw -d 0.0.0.0",
		"set another one for the client":                 "send_bw 127.0.0.1",
		"rows":                                           "send_bw -x 7 -d " + serverIP,
		"atomic_type must be one of":                     "atomic_bw -A SWAP",
		"expected \"<test>\"":                            "",
	}
	for want, args := range tests {
		assert.ErrorContains(t, command(t.Context(), strings.Fields(args), &testenv.Output{}), want, args)
	}
}

// The times are those of perftest: half of the time between two messages, without the two longest.
func TestLatencyResult(t *testing.T) {
	s := &session{o: &options{Test: test{send, true}}}
	l := &latency{s: s, size: 2}
	at := time.Duration(0)
	for i := range 13 { // gaps of 2, 4 … 24 us
		at += time.Duration(2*i) * time.Microsecond
		l.times = append(l.times, at)
	}
	r := l.result()
	assert.Equal(t, latencyResult{Size: 2, Iters: 13, Min: 1, Max: 11, Typical: 5.5, Average: 5.5, Stdev: r.Stdev,
		P99: 11, P999: 11}, r)
	assert.InDelta(t, 2.872, r.Stdev, 0.001)
	s.o.Test.verb = read // not messages in turn: the whole time
	assert.Equal(t, 2.0, l.result().Min)
}

func TestShortest(t *testing.T) {
	us := time.Microsecond
	posted := []time.Duration{0, 1 * us, 2 * us, 10 * us}
	assert.InDelta(t, 3e-6, shortest(posted, []time.Duration{4 * us, 7 * us, 0, 13 * us}), 1e-12,
		"1 to 2, or the last one alone")
	assert.InDelta(t, 2e-6, shortest(posted, []time.Duration{0, 4 * us, 0, 13 * us}), 1e-12, "0 and 1 together")
	assert.Zero(t, shortest(nil, nil))
}

func TestMailbox(t *testing.T) {
	m := newMailbox(8)
	assert.Nil(t, m.Slice(0, 8))
	n, err := m.WriteAt([]byte{1, 2}, 3)
	require.NoError(t, err)
	assert.Equal(t, 2, n)
	_, err = m.WriteAt([]byte{9}, 7)
	require.NoError(t, err)
	<-m.written
	assert.Equal(t, uint64(2), m.writes.Load())
	assert.Equal(t, byte(2), m.at(4))
	p := make([]byte, 8)
	_, err = m.ReadAt(p, 0)
	require.NoError(t, err)
	assert.Equal(t, []byte{0, 0, 0, 1, 2, 0, 0, 9}, p)
	_, err = m.WriteAt([]byte{1, 2}, 7)
	assert.Error(t, err)
}
