package mads

import (
	"time"

	"ciddk/accesslayer"
)

// Config holds the settings of a Manager. The zero value selects the defaults.
type Config struct {
	// Name identifies the user of the services in logs and in the error of a second New; empty: "mads.New".
	Name string

	// RecvDepth is the number of receives that QP0 and QP1 of a port have posted, from 64 to 8192 and at most the limit
	// of the HCA; 0: 512.
	RecvDepth int
	// SendDepth is the number of datagrams that a QP has posted at a time; 0: 128. QueueLimit is the number of
	// datagrams that may wait to be posted; 0: 4096.
	SendDepth, QueueLimit int
	// AVs bounds the unused address vectors that each QP keeps; 0: 1024.
	AVs int

	// MaxMessage is the longest message that RMPP receives or sends, in bytes; 0: 16 MiB. MaxTransfers bounds the
	// transfers of a QP that peers began, and the QP's own long sends; 0: 256. MaxReassembly bounds the memory of all
	// transfers to a QP, in bytes; 0: 64 MiB.
	MaxMessage, MaxTransfers, MaxReassembly int

	// MaxReplies bounds the replies per second that report an error or refuse a transfer, and MaxRepliesPeer those to
	// one destination; see ReplyLimit. 0: 4096 and 256.
	MaxReplies, MaxRepliesPeer int

	// NodeDescription answers a subnet manager for adapters whose driver has no NodeDescription; at most 64 bytes.
	NodeDescription string

	// Poll is the way to wait for completions. Spin is as in accesslayer.Poller.
	Poll accesslayer.PollMode
	Spin time.Duration

	// FirstAgent is the upper half of the transaction IDs of the first agent; those of later agents count up from it.
	// 0: random, so that late responses to the requests of an earlier Manager do not match requests of this one.
	FirstAgent uint32
}

const minRecvDepth, maxRecvDepth = 64, 8192

func (c Config) withDefaults() Config {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	if c.Name == "" {
		c.Name = "mads.New"
	}
	def(&c.RecvDepth, 512)
	c.RecvDepth = min(max(c.RecvDepth, minRecvDepth), maxRecvDepth)
	def(&c.SendDepth, 128)
	def(&c.QueueLimit, 4096)
	def(&c.AVs, 1024)
	def(&c.MaxMessage, 16<<20)
	def(&c.MaxTransfers, 256)
	def(&c.MaxReassembly, 64<<20)
	def(&c.MaxReplies, 4096)
	def(&c.MaxRepliesPeer, 256)
	return c
}
