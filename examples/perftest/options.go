package main

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"ciddk/ci"
)

// options holds the command line: the options of the original programs that apply here, and some with long names only.
// -1 stands for a default that depends on other options.
type options struct {
	Test test   `arg:"" help:"send_bw, send_lat, write_bw, write_lat, read_bw, read_lat, atomic_bw or atomic_lat."`
	Host string `arg:"" optional:"" help:"Server to connect to; without it, wait for a client."`

	Addr      netip.Addr `short:"d" placeholder:"ADDR" help:"IP address. Default: that towards HOST, or a free one."`
	Listen    netip.Addr `placeholder:"ADDR" help:"Server: IP address of its TCP port, if it is not that of the adapter."`
	Port      uint16     `short:"p" default:"18515" help:"TCP port (with -z and -R, port of RDMA CM) of the server."`
	Service   service    `short:"c" name:"connection" default:"RC" help:"Transport service: RC, UC or UD."`
	RDMACM    bool       `short:"R" name:"rdma_cm" help:"Use RDMA CM to connect the queue pairs and for the exchange with the peer (RC and UD)."`
	TalkCM    bool       `short:"z" name:"comm_rdma_cm" help:"Use RDMA CM only for the exchange with the peer."`
	Size      int        `short:"s" default:"-1" help:"Bytes of a message (-1: 65536 for _bw, 2 for _lat, 8 for atomic; with UD at most the path MTU)."`
	All       bool       `short:"a" help:"Run all sizes from 2 to 2^23 bytes, or to the path MTU with UD."`
	Iters     int        `short:"n" default:"-1" help:"Messages of each queue pair (-1: 1000; write_bw 5000)."`
	Duration  int        `short:"D" placeholder:"SECONDS" help:"Duration of the run, instead of -n."`
	Margin    int        `short:"f" default:"-1" placeholder:"SECONDS" help:"With -D: time at the beginning and at the end that is not measured (-1: a quarter of -D)."`
	Both      bool       `short:"b" name:"bidirectional" help:"_bw: move data in both directions at the same time."`
	QPs       int        `short:"q" name:"qp" default:"1" help:"_bw: number of queue pairs."`
	MTU       int        `short:"m" help:"Path MTU: 256, 512, 1024, 2048 or 4096; default: the port's. The smaller of both sides is used."`
	GIDIndex  int        `short:"x" name:"gid-index" default:"-1" help:"Row of the port's GID table (-1: that of the adapter's address)."`
	TxDepth   int        `short:"t" name:"tx-depth" default:"-1" help:"Depth of the send queue (-1: 128 for _bw, 1 for _lat)."`
	RxDepth   int        `short:"r" name:"rx-depth" default:"-1" help:"send: depth of the receive queue (-1: 512; with UC and UD as many as -n)."`
	PostList  int        `short:"l" name:"post_list" default:"1" help:"_bw: number of requests posted at a time; -n must be a multiple."`
	CQMod     int        `short:"Q" name:"cq-mod" default:"-1" help:"_bw: number of requests for each completion (-1: 100, or 1 above 8 KiB)."`
	Inline    int        `short:"I" name:"inline_size" help:"send, write: longest message that is posted inline, in bytes."`
	Outs      int        `short:"o" name:"outs" default:"-1" help:"read, atomic: requests outstanding at a time (-1: as many as the adapter supports)."`
	Atomic    string     `short:"A" name:"atomic_type" default:"FETCH_AND_ADD" enum:"FETCH_AND_ADD,CMP_AND_SWAP" help:"atomic: FETCH_AND_ADD or CMP_AND_SWAP."`
	QPTimeout int        `short:"u" name:"qp-timeout" default:"14" help:"Acknowledgement timeout of RC: 4.096 us * 2^N."`
	Events    bool       `short:"e" help:"Sleep on completion events instead of polling."`
	NoPeak    bool       `short:"N" name:"noPeak" help:"_bw: do not compute the peak. It is never computed with -D or more than 20000 messages."`
	Gbits     bool       `name:"report_gbits" help:"_bw: report Gb/s instead of MB/s."`

	JSON    bool          `help:"Print one JSON document at the end, instead of the table."`
	Timeout time.Duration `default:"30s" help:"Time limit without progress. A server waits for its client without limit."`

	sizeGiven bool // by -s

	Frequency bool `short:"F" name:"CPU-freq" hidden:"" help:"Ignored, for scripts."`
}

// Limits; those of sizes and depths are perftest's.
const (
	maxSize     = 8 << 20 // of -a, and so of -s
	maxTxDepth  = 15000
	maxRxDepth  = 16000
	maxQPs      = 1024
	maxIters    = 10_000_000
	minIters    = 5
	peakIters   = 20000
	largeForMod = 8192
)

// maxMemory is the largest length of all buffers of a side.
const maxMemory int64 = 4 << 30

func (o *options) client() bool { return o.Host != "" }

// sends reports whether this side's program posts requests.
func (o *options) sends() bool { return o.client() || o.Both || (o.Test.latency && !o.Test.oneSided()) }

// receives reports whether this side's program posts receives.
func (o *options) receives() bool {
	return o.Test.verb == send && (!o.client() || o.Both || o.Test.latency)
}

// complete fills in defaults and rejects what cannot be.
func (o *options) complete() error {
	if err := o.check(); err != nil {
		return err
	}
	t := o.Test
	o.sizeGiven = o.Size != -1
	setDefault(&o.Size, map[bool]int{false: 65536, true: 2}[t.latency])
	if t.verb == atomic {
		o.Size = 8
	}
	setDefault(&o.Iters, map[bool]int{false: 1000, true: 5000}[t == test{verb: write}])
	setDefault(&o.TxDepth, map[bool]int{false: 128, true: 1}[t.latency])
	if o.RxDepth == -1 {
		o.RxDepth = 512
		if o.Service != service(ci.RC) && o.Duration == 0 { // a message without a receive is lost
			o.RxDepth = min(o.Iters, maxRxDepth)
		}
	}
	if o.Duration == 0 {
		o.TxDepth, o.RxDepth = min(o.TxDepth, o.Iters), min(o.RxDepth, o.Iters)
	} else {
		setDefault(&o.Margin, o.Duration/4)
	}
	if o.CQMod == -1 {
		o.CQMod = 100
		if o.PostList > 1 {
			o.CQMod = o.PostList
		} else if o.Size > largeForMod && o.Service != service(ci.UD) && !o.All {
			o.CQMod = 1
		}
	}
	o.CQMod = min(o.CQMod, o.TxDepth)
	if t.latency {
		o.CQMod = 1
	}
	if o.All {
		o.Size = maxSize
	}
	if o.Duration > 0 || int64(o.Iters)*int64(o.QPs) > peakIters {
		o.NoPeak = true
	}
	return o.checkCompleted()
}

func setDefault(v *int, d int) {
	if *v == -1 {
		*v = d
	}
}

// check rejects combinations that are invalid whatever the defaults are.
func (o *options) check() error {
	o.Addr, o.Listen = o.Addr.Unmap(), o.Listen.Unmap()
	t := o.Test
	switch {
	case !slices.Contains(t.services(), o.Service):
		return fmt.Errorf("-c %v: %v supports only %v", o.Service, t, t.services())
	case o.RDMACM && o.Service == service(ci.UC):
		return errors.New("-R with -c UC: perftest does not connect UC with RDMA CM; use -z")
	case o.Addr.IsUnspecified():
		return fmt.Errorf("-d %v: want a specific address of this machine", o.Addr)
	case o.Listen.IsValid() && o.client():
		return errors.New("--listen is an option of servers")
	case o.Listen.IsValid() && (o.RDMACM || o.TalkCM):
		return errors.New("--listen is an option of the exchange over TCP: with -R and -z the server listens on its " +
			"adapter")
	case t.latency && o.Both:
		return errors.New("-b is an option of bandwidth tests")
	case t.latency && o.QPs != 1:
		return errors.New("-q is an option of bandwidth tests")
	case t.latency && o.PostList != 1:
		return errors.New("-l is an option of bandwidth tests")
	case t.verb == atomic && o.All:
		return errors.New("-a: atomics always have 8 bytes")
	case t.verb == atomic && o.Size != -1 && o.Size != 8:
		return fmt.Errorf("-s %d: atomics always have 8 bytes", o.Size)
	case o.All && o.Duration != 0:
		return errors.New("-a with -D: perftest runs all sizes by -n only")
	case o.Size < -1 || o.Size == 0 || o.Size > maxSize:
		return fmt.Errorf("-s %d: want 1 to %d bytes", o.Size, maxSize)
	case o.Iters != -1 && (o.Iters < minIters || o.Iters > maxIters):
		return fmt.Errorf("-n %d: want %d to %d messages", o.Iters, minIters, maxIters)
	case o.Duration < 0 || o.Duration > 7*24*3600:
		return fmt.Errorf("-D %d: want 0 seconds to a week", o.Duration)
	case o.QPs < 1 || o.QPs > maxQPs:
		return fmt.Errorf("-q %d: want 1 to %d", o.QPs, maxQPs)
	case o.MTU != 0 && mtuCode(o.MTU) == 0:
		return fmt.Errorf("-m %d: want a path MTU of 256, 512, 1024, 2048 or 4096", o.MTU)
	case o.GIDIndex < -1:
		return fmt.Errorf("-x %d: want a row of the GID table, 0 or more", o.GIDIndex)
	case o.TxDepth != -1 && (o.TxDepth < 1 || o.TxDepth > maxTxDepth):
		return fmt.Errorf("-t %d: want 1 to %d", o.TxDepth, maxTxDepth)
	case o.RxDepth != -1 && (o.RxDepth < 1 || o.RxDepth > maxRxDepth):
		return fmt.Errorf("-r %d: want 1 to %d", o.RxDepth, maxRxDepth)
	case o.Inline < 0 || o.Inline > 1<<10:
		return fmt.Errorf("-I %d: want 0 to 1024 bytes", o.Inline)
	case o.Outs != -1 && (o.Outs < 1 || o.Outs > 255):
		return fmt.Errorf("-o %d: want 1 to 255", o.Outs)
	case o.CQMod != -1 && o.CQMod < 1:
		return fmt.Errorf("-Q %d: want at least 1", o.CQMod)
	case o.PostList < 1:
		return fmt.Errorf("-l %d: want at least 1", o.PostList)
	case o.QPTimeout < 0 || o.QPTimeout > 31:
		return fmt.Errorf("-u %d: want 0 to 31", o.QPTimeout)
	case o.Timeout <= 0:
		return fmt.Errorf("--timeout %v: want a positive duration", o.Timeout)
	}
	return nil
}

// checkCompleted rejects combinations that are invalid with the defaults filled in.
func (o *options) checkCompleted() error {
	switch {
	case o.PostList > o.TxDepth:
		return fmt.Errorf("-l %d: want at most the depth of the send queue, %d", o.PostList, o.TxDepth)
	case o.Duration == 0 && o.Iters%o.PostList != 0:
		return fmt.Errorf("-l %d: -n must be a multiple of it, but is %d", o.PostList, o.Iters)
	case o.PostList > 1 && o.PostList%o.CQMod != 0:
		return fmt.Errorf("-Q %d: -l must be a multiple of it, but is %d", o.CQMod, o.PostList)
	case o.Duration > 0 && (o.Margin < 0 || o.Duration <= 2*o.Margin):
		return fmt.Errorf("-f %d: -D must be more than twice as long, but is %d", o.Margin, o.Duration)
	case int64(o.QPs)*int64(max(o.Size, minBuffer))*2 > maxMemory:
		return fmt.Errorf("-q %d with -s %d: the buffers would take more than %d bytes", o.QPs, o.Size, maxMemory)
	}
	return nil
}

// mtuCode returns the code of a path MTU in bytes, or 0.
func mtuCode(bytes int) ci.MTU {
	for m := ci.MTU256; m <= ci.MTU4096; m++ {
		if m.Bytes() == bytes {
			return m
		}
	}
	return 0
}
