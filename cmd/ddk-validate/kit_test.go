package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// TestKit tests the constructors of package kit on the reference HCA over each link: pairs of every service connect,
// carry data and leave nothing behind. No other test outside of the suites uses kit with a real transport.
func TestKit(t *testing.T) {
	one := func(id string, run func(*validate.T)) validate.Case {
		return validate.Case{
			ID: "kit." + id, Title: id, Requirements: []string{"SAS-0-01"}, Feature: validate.FeatureRC, Run: run,
			Timeout: 5 * time.Second,
		}
	}
	suite := validate.Suite{Cases: []validate.Case{
		one("rc", func(t *validate.T) {
			p := kit.RC(t)
			p.A.Exchange(p.B, 3000)
			p.B.Exchange(p.A, 1)
			q := p.More(true)
			q.A.Exchange(q.B, 0)
		}),
		one("uc", func(t *validate.T) {
			p := kit.UC(t)
			p.A.Exchange(p.B, 3000)
		}),
		one("ud", func(t *validate.T) {
			p := kit.UD(t)
			p.A.Exchange(p.B, 500)
			p.B.Exchange(p.A, 1)
		}),
		one("write", func(t *validate.T) {
			p := kit.RC(t)
			want := p.A.Buf.Fill(t, 0, 5000)
			p.A.Send(p.A.RDMA(ci.OpWrite, 1, 0, 5000, p.B, 100))
			p.A.CQ.WaitOK(1)
			kit.SameBytes(t, "bytes written", p.B.Buf.Bytes[100:5100], want)
		}),
		one("flush", func(t *validate.T) {
			p := kit.RC(t)
			p.B.Recv(p.B.RecvWRs(3, 16)...)
			p.B.To(ci.QPError)
			for i := range 3 {
				p.B.RecvCQ.WaitStatus(uint64(i+1), ci.WCFlushErr)
			}
			p.B.WantState(ci.QPError)
		}),
	}}
	lossy := one("lossy", func(t *validate.T) {
		t.Impair(validate.Impairment{Drop: 0.1, Duplicate: 0.05, Reorder: 0.05, Corrupt: 0.02})
		p := kit.RC(t, kit.AckTime(12))
		for range 5 {
			p.A.Exchange(p.B, 20000)
		}
	})
	lossy.Needs.Impair = true
	cut := one("cut", func(t *validate.T) {
		p := kit.RC(t, kit.AckTime(10), kit.Retry(1))
		t.Impair(validate.Impairment{Cut: true})
		p.A.Send(p.A.SendWR(1, 0, 1))
		p.A.CQ.WaitStatus(1, ci.WCTimeoutRetryErr)
		p.A.WantState(ci.QPError)
	})
	cut.Needs.Impair = true
	c := validate.MustCatalog(validate.Suite{Cases: []validate.Case{lossy, cut}}, suite)
	d := drivers()[0]
	for _, link := range d.Links {
		o := validate.Options{Seed: 1, Link: link, Run: os.Getpid()}
		p := validate.Plan{Catalog: c, Driver: d, Setting: validate.Setting{Profile: "full", Options: o}}
		r, err := p.Run(t.Context())
		require.NoError(t, err)
		for _, x := range r.Results {
			assert.Equal(t, validate.Pass, x.Status, "%s over %s: %+v %s", x.Case, link, x.Failures, x.Reason)
		}
	}
}
