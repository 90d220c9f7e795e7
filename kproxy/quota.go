package kproxy

import (
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/internal/memlimit"
)

// Quota limits one client. Zero fields have the defaults stated.
type Quota struct {
	PDs         int // 4096
	AVs         int // 65536
	CQs         int // 16384
	SRQs        int // 16384
	QPs         int // 16384
	Mcasts      int // 16384
	MRs         int // 65536
	MWs         int // 65536
	EventQueues int // 1024

	Listeners   int // 1024
	Connections int // of the connection manager, and requests in progress: 16384
	Agents      int // of the MAD services: 256
	Ports       int // of the port spaces: 16384

	// of all work and completion queues, estimated from their sizes: 1 GiB, or an eighth of the memory
	// (internal/memlimit)
	QueueBytes  int64
	MemoryBytes int64 // of all registered memory: 64 GiB
	// of what listeners, connections, agents and their requests hold, estimated: 64 MiB, or a 64th of the memory
	ServiceBytes int64
	Mappings     int // of the client's memory in the daemon, one for each shared region and each open adapter: 8192
	// of events that wait in one event queue because the client does not read: 4096. 64 times as many may wait in all
	// queues of a client. Beyond it, events replace equal ones
	Events  int
	Pending int // requests in execution: 64
}

// WithDefaults returns the limits with the defaults of zero fields.
func (q Quota) WithDefaults() Quota {
	set := func(p *int, n int) {
		if *p <= 0 {
			*p = n
		}
	}
	set(&q.PDs, 4096)
	set(&q.AVs, 65536)
	set(&q.CQs, 16384)
	set(&q.SRQs, 16384)
	set(&q.QPs, 16384)
	set(&q.Mcasts, 16384)
	set(&q.MRs, 65536)
	set(&q.MWs, 65536)
	set(&q.EventQueues, 1024)
	set(&q.Mappings, 8192)
	set(&q.Listeners, 1024)
	set(&q.Connections, 16384)
	set(&q.Agents, 256)
	set(&q.Ports, 16384)
	set(&q.Events, 4096)
	set(&q.Pending, 64)
	if q.QueueBytes <= 0 {
		q.QueueBytes = memlimit.ClientQueues()
	}
	if q.ServiceBytes <= 0 {
		q.ServiceBytes = memlimit.ClientServices()
	}
	if q.MemoryBytes <= 0 {
		q.MemoryBytes = 64 << 30
	}
	return q
}

// maxCAs is the number of times that a client may open adapters.
const maxCAs = 256

// maxServices is the number of times that a client may open the services.
const maxServices = 16

// kind returns the limit of a kind.
func (q *Quota) kind(k schema.Kind) int {
	switch k {
	case schema.KindEventQueue:
		return q.EventQueues
	case schema.KindCA:
		return maxCAs
	case schema.KindPD:
		return q.PDs
	case schema.KindAV:
		return q.AVs
	case schema.KindCQ:
		return q.CQs
	case schema.KindSRQ:
		return q.SRQs
	case schema.KindQP:
		return q.QPs
	case schema.KindMcast:
		return q.Mcasts
	case schema.KindMR:
		return q.MRs
	case schema.KindMW:
		return q.MWs
	case schema.KindServices:
		return maxServices
	case schema.KindListener:
		return q.Listeners
	case schema.KindConn, schema.KindLookup, schema.KindLookupRequest:
		return q.Connections
	case schema.KindAgent:
		return q.Agents
	case schema.KindPort:
		return q.Ports
	}
	return 0
}

// limit lowers the limits of an adapter to the quota, so that a client sees what it can create.
func (q *Quota) limit(a *ci.CAAttr) {
	a.MaxPDs = min(a.MaxPDs, q.PDs)
	a.MaxAVs = min(a.MaxAVs, q.AVs)
	a.MaxCQs = min(a.MaxCQs, q.CQs)
	a.MaxSRQs = min(a.MaxSRQs, q.SRQs)
	a.MaxQPs = min(a.MaxQPs, q.QPs)
	a.MaxMcastQPs = min(a.MaxMcastQPs, q.Mcasts)
	a.MaxMRs = min(a.MaxMRs, q.MRs)
	a.MaxMWs = min(a.MaxMWs, q.MWs)
	a.MaxMRSize = min(a.MaxMRSize, uint64(q.MemoryBytes))
	// Queues of requests with one element each; a QP has two. Front ends and libraries round the lengths of queues up,
	// at most to twice the length.
	const bytesPerRequest = bytesPerWR + bytesPerSGE
	half := q.QueueBytes / 2
	a.MaxCQEs = int(min(int64(a.MaxCQEs), half/bytesPerCQE))
	a.MaxWRs = int(min(int64(a.MaxWRs), half/(2*bytesPerRequest)))
	a.MaxSRQWRs = int(min(int64(a.MaxSRQWRs), half/bytesPerRequest))
}

// usage is what a client holds. Session.mu guards it.
type usage struct {
	count        [schema.NumKinds]int
	queueBytes   int64
	memoryBytes  int64
	mappings     int
	files        int   // descriptors
	space        int64 // mapped bytes
	serviceBytes int64
}

// charge is the part of a session's usage that one object causes.
type charge struct {
	queue, memory, service int64
	space                  int64 // mapped bytes
	mappings, files        int
}

// Bytes that one entry of a queue is estimated to hold in a driver, beside its scatter/gather elements of 16 bytes.
const (
	bytesPerCQE = 64
	bytesPerWR  = 128
	bytesPerSGE = 16
)

// maxEntries is the largest number of bytes that one queue is charged for: the sum of two does not overflow.
const maxEntries = 1 << 61

// entries returns n entries of size bytes, without overflow; negative numbers count as none.
func entries(n, size int64) int64 {
	if n <= 0 || size <= 0 {
		return 0
	}
	if n > 1<<31 || size > 1<<31 {
		return 1 << 62
	}
	return n * size
}

func qpCharge(c ci.QPCaps) charge {
	send := entries(int64(c.SendDepth), bytesPerWR+entries(int64(c.SendSGE), bytesPerSGE)+int64(max(c.MaxInline, 0)))
	recv := entries(int64(c.RecvDepth), bytesPerWR+entries(int64(c.RecvSGE), bytesPerSGE))
	return charge{queue: min(send, maxEntries) + min(recv, maxEntries)}
}

func cqCharge(size int) charge { return charge{queue: entries(int64(size), bytesPerCQE)} }

func srqCharge(a ci.SRQAttr) charge {
	return charge{queue: entries(int64(a.MaxWR), bytesPerWR+entries(int64(a.MaxSGE), bytesPerSGE))}
}
