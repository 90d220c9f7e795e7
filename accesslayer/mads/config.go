package mads

import (
	"time"

	"ciddk/accesslayer"
)

// Config tunes a Manager. The zero value is good for use.
type Config struct {
	// Name is who these services are for, in logs and in the error of a second New; empty: "mads.New".
	Name string

	// RecvDepth is how many receives QP0 and QP1 of a port have posted, 64 to 8192, and at most what the HCA grants; 0: 512.
	RecvDepth int
	// SendDepth is how many datagrams a QP has on the way at once; 0: 128. QueueLimit is how many more may wait for that; 0: 4096.
	SendDepth, QueueLimit int
	// AVs bounds the address vectors that are kept for each QP because they may be used again; 0: 1024.
	AVs int

	// MaxMessage is the longest message that RMPP takes in or sends, in bytes; 0: 16 MiB. MaxTransfers is how many transfers that a QP's
	// peers begin may be in progress, and how many of its own long sends; 0: 256. MaxReassembly bounds what all transfers to a QP
	// hold, in bytes; 0: 64 MiB.
	MaxMessage, MaxTransfers, MaxReassembly int

	// MaxReplies bounds the answers a second that report an error or refuse a transfer, all together, and MaxRepliesPeer those to one
	// destination: see ReplyLimit. 0: 4096 and 256.
	MaxReplies, MaxRepliesPeer int

	// Poll is how completions are waited for; Spin as accesslayer.Poller has it.
	Poll accesslayer.PollMode
	Spin time.Duration

	// FirstAgent is the upper half of the transaction IDs of the first agent, those of others count up from it; 0: random, so that late
	// answers to another Manager's requests are not taken for those to this one's.
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
