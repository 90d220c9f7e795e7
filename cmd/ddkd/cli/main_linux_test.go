package cli_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/ci"
	"ciddk/cmd/ddkd/cli"
	"ciddk/cmd/ddkd/software"
	"ciddk/internal/testenv"
	"ciddk/ual"
)

// roleEnv makes the test's program a daemon or a client, for tests that kill one.
const roleEnv = "DDKD_TEST_ROLE"

// run executes a command line with the software HCA.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return cli.Run(ctx, cli.Config{Name: "ddkd", Drivers: []cli.Driver{software.Driver()}, Stdout: stdout,
		Stderr: stderr}, args)
}

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "daemon":
		os.Exit(run(context.Background(), []string{"serve", "--adapter", "link=network,address=10.0.0.1"},
			os.Stdout, os.Stderr))
	case copyingDaemon:
		os.Exit(copyingDaemonMain())
	case copyingClient:
		os.Exit(copyingClientMain())
	case "service":
		os.Exit(serviceMain())
	case victimRole:
		victimMain()
	}
	goleak.VerifyTestMain(m)
}

// serviceMain is a daemon that a service manager starts and stops.
func serviceMain() int {
	return cli.Main(cli.Config{Name: "ddkd", Drivers: []cli.Driver{software.Driver()}},
		[]string{"serve", "--drain=3s", "--log=warn", "--adapter", "link=network,address=10.0.0.1"})
}

// traffic connects to the daemon at $DDKD_SOCKET and sends between two of its QPs, from memory of the process to memory
// that is shared with the daemon, until next reports false for the number of messages sent.
func traffic(next func(sent int) bool) error {
	c, err := ual.Dial(ual.Config{Name: "traffic"})
	if err != nil {
		return err
	}
	defer c.Close()
	x, err := newLoop(c)
	if err != nil {
		return err
	}
	for i := 0; next(i); i++ {
		if err := x.transfer(); err != nil {
			return err
		}
	}
	return nil
}

// loop is two connected QPs of one process.
type loop struct {
	pd       ci.PD
	cq       ci.CQ
	a, b     ci.QP
	from, to ci.Region
	shared   *ual.Memory
	fatal    chan struct{} // closed at EventLocalFatal
}

func newLoop(c *ual.Client) (*loop, error) {
	hcas, err := c.HCAs()
	if err != nil || len(hcas) != 1 {
		return nil, fmt.Errorf("%d adapters: %w", len(hcas), err)
	}
	x := &loop{fatal: make(chan struct{})}
	ca, err := hcas[0].OpenCA(hcas[0].Info().GUID, func(e ci.Event) {
		if e.Type == ci.EventLocalFatal {
			close(x.fatal)
		}
	}, nil)
	if err != nil {
		return nil, err
	}
	pd, err := ca.AllocatePD(ci.PDNormal)
	if err != nil {
		return nil, err
	}
	x.pd = pd
	if x.cq, err = pd.CreateCQ(ci.CQCreate{Size: 64, OnCompletion: func(any) {}}); err != nil {
		return nil, err
	}
	create := ci.QPCreate{SendCQ: x.cq, RecvCQ: x.cq, QPCaps: ci.QPCaps{SendDepth: 16, RecvDepth: 16,
		SendSGE: 1, RecvSGE: 1}}
	if x.a, err = pd.CreateQP(create); err != nil {
		return nil, err
	}
	if x.b, err = pd.CreateQP(create); err != nil {
		return nil, err
	}
	if err := x.register(pd); err != nil {
		return nil, err
	}
	return x, x.connect(ca)
}

func (x *loop) register(pd ci.PD) error {
	own, err := pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 8192))})
	if err != nil {
		return err
	}
	if x.shared, err = ual.NewMemory(8192); err != nil {
		return err
	}
	shared, err := pd.RegisterMR(ci.MRCreate{Memory: x.shared, Access: ci.LocalWrite})
	if err != nil {
		return err
	}
	x.from, x.to = own.Region(), shared.Region()
	return nil
}

func (x *loop) connect(ca ci.CA) error {
	attr, err := ca.Query()
	if err != nil {
		return err
	}
	for _, p := range []struct{ q, peer ci.QP }{{x.a, x.b}, {x.b, x.a}} {
		if err := p.q.Modify(ci.ToInit{Port: 1}.For(ci.RC)); err != nil {
			return err
		}
		av := ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{DGID: attr.Ports[0].GIDs[0].GID, HopLimit: 64}}
		rtr := ci.ToRTR{AV: av, MTU: ci.MTU1024, DestNum: p.peer.Num(), RespRes: 1, MinRNRTimer: 12}
		if err := p.q.Modify(rtr.For(ci.RC)); err != nil {
			return err
		}
		if err := p.q.Modify(ci.ToRTS{AckTimeout: 14, RetryCount: 7, RNRRetry: 7,
			InitDepth: 1}.For(ci.RC)); err != nil {
			return err
		}
	}
	return nil
}

// transfer sends a message of 8 KiB and waits for both completions.
func (x *loop) transfer() error {
	if _, err := x.b.PostRecv([]ci.RecvWR{{SGL: []ci.SGE{x.to.SGE(0, 8192)}}}); err != nil {
		return err
	}
	if err := x.cq.Notify(ci.NotifyNext); err != nil {
		return err
	}
	send := ci.SendWR{Op: ci.OpSend, Flags: ci.SendSignaled, SGL: []ci.SGE{x.from.SGE(0, 8192)}}
	if _, err := x.a.PostSend([]ci.SendWR{send}); err != nil {
		return err
	}
	var wc [2]ci.WC
	for n := 0; n < 2; {
		got, err := x.cq.Poll(wc[:2-n])
		if err != nil {
			return err
		}
		for _, w := range wc[:got] {
			if err := w.Err(); err != nil {
				return err
			}
		}
		n += got
	}
	return nil
}

// socket sets $DDKD_SOCKET to a path of the test and returns it.
func socket(t *testing.T) string {
	dir, err := os.MkdirTemp("", "ddkd") // t.TempDir can be too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	t.Setenv("DDKD_SOCKET", dir+"/socket")
	return dir + "/socket"
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, testenv.Patience, 2*time.Millisecond, what)
}
