package main

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"time"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/hca/reference"
	"ciddk/validate"
)

// A legal adapter is correct and unusual. A seed draws its limits, its sizes and its timing, so that a case that
// assumes more than the claims say fails.
type legal struct {
	*rand.Rand
	attr ci.CAAttr // of both adapters
}

// legalAdapter returns the adapter that the setting legal draws, or nil if it is not set.
func legalAdapter(o validate.Options) (*legal, error) {
	v := o.Values["legal"]
	if v == "" {
		return nil, nil
	}
	seed, err := strconv.ParseUint(v, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("--set legal=%s: want a seed, a number from 0", v)
	}
	l := &legal{Rand: rand.New(rand.NewPCG(seed, 0x6c6567616c))}
	l.attr = l.limits()
	return l, nil
}

// smallest returns the least value of each limit that a legal adapter draws. With less, no case tests some of the
// claims, and the run ends without a certificate.
func smallest() ci.CAAttr {
	a := validate.ServiceLimits()
	a.MaxPDs, a.MaxFastRegPages, a.Vectors = 1, 32, 1
	return a
}

// limits draws the limits. One of three is the engine's own, one of three is tiny, and one of three is moderate.
func (l *legal) limits() ci.CAAttr {
	var a ci.CAAttr
	least, to := reflect.ValueOf(smallest()), reflect.ValueOf(&a).Elem()
	for i := range least.NumField() {
		if f := least.Field(i); f.Kind() == reflect.Int && f.Int() > 0 {
			switch l.IntN(3) {
			case 0:
				to.Field(i).SetInt(f.Int() + l.Int64N(8))
			case 1:
				to.Field(i).SetInt(f.Int() + 1<<l.IntN(10))
				if name := least.Type().Field(i).Name; strings.HasSuffix(name, "SGEs") {
					to.Field(i).SetInt(f.Int() + l.Int64N(29)) // of an entry, which has room for 32
				}
			}
		}
	}
	if a.MaxSGEs == 0 {
		a.MaxSGEs = 32
	}
	if a.MaxReadSGEs == 0 || a.MaxReadSGEs > a.MaxSGEs {
		a.MaxReadSGEs = a.MaxSGEs
	}
	if a.MaxRespRes > 0 && (a.MaxRespResPerQP == 0 || a.MaxRespResPerQP > a.MaxRespRes) {
		a.MaxRespResPerQP = a.MaxRespRes
	}
	a.MaxRespResPerQP = min(a.MaxRespResPerQP, 255)
	a.MaxInitDepthPerQP = min(a.MaxInitDepthPerQP, 255)
	return a
}

// draw sets what the adapter differs in from the kit's own.
func (l *legal) draw(c *reference.Config) {
	c.Attr = l.attr
	roundUp, slow := l.IntN(2) == 0, l.IntN(2) == 0
	round := func(n *int, limit int) {
		if up := 1 << bits.Len(uint(max(*n-1, 0))); roundUp && *n > 0 && up <= limit {
			*n = up
		}
	}
	a := c.Attr
	c.Override = ciwrap.Layer{
		CQCreate: func(q ci.CQCreate) ci.CQCreate { round(&q.Size, a.MaxCQEs); return q },
		QPCreate: func(q ci.QPCreate) ci.QPCreate {
			round(&q.SendDepth, a.MaxWRs)
			round(&q.RecvDepth, a.MaxWRs)
			return q
		},
		SRQCreate: func(s ci.SRQCreate) ci.SRQCreate { round(&s.MaxWR, a.MaxSRQWRs); return s },
	}
	if slow { // callbacks are late, and completions may have been polled before
		c.Override.Completion = func(arg any, deliver func(any)) { time.Sleep(time.Millisecond); deliver(arg) }
	}
}

// latency returns how long packets take on the link network.
func (l *legal) latency() time.Duration { return time.Duration(l.IntN(3)) * 200 * time.Microsecond }

// mtu returns the MTU of both ports.
func (l *legal) mtu() ci.MTU {
	return []ci.MTU{ci.MTU512, ci.MTU1024, ci.MTU2048, ci.MTU4096}[l.IntN(4)]
}
