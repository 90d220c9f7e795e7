package rvt

import (
	"sync/atomic"

	"ciddk/ci"
)

// A Counter identifies one of the counters of an HCA. Each packet that is not acted on is counted exactly once, under
// its reason.
type Counter uint8

const (
	CountRecv     Counter = iota // packets delivered to the engine (a train counts N); kept by port: PortCount
	CountSent                    // packets handed to ports (a train counts N); so is this
	DropMalformed                // port: not a packet of this transport
	DropICRC                     // port: invariant CRC wrong
	// port: invariant CRC right for an IPv4 identification only that does not fit its sender's others
	DropIPv4ID
	DropNotForUs       // port: destination address is not one of the port's
	DropSendFailed     // port: the link did not take it
	DropNoQP           // no QP of that number, or it belongs to another port
	DropQPState        // the QP does not receive in its state
	DropService        // opcode of another service than the QP's
	DropSource         // connected QP: the packet comes from another address, or is for another GID
	DropPKey           // P_Key does not match
	DropQKey           // Q_Key does not match
	DropNoRecv         // datagram or UC: no receive posted
	DropLength         // datagram or UC: receive buffer too short, or length against opcode
	DropSequence       // UC: out of sequence, or of a message given up; RC: behind a gap
	DropDuplicate      // RC: old request, answered again where the transport says so
	DropStale          // RC: acknowledgement of nothing outstanding
	DropAccess         // UC: remote access refused
	DropResponse       // RC: response that fits no request
	DropBusy           // a busy QP's backlog was full
	CountRetry         // transport retries (timeout)
	CountRNRNak        // RNR NAKs sent
	CountRNRRetry      // RNR NAKs received
	CountSeqNak        // sequence NAKs sent
	CountSeqRetry      // sequence NAKs received
	CountInvalidNak    // fatal NAKs sent
	CountNakDelayed    // sequence errors that were not acted on at once: see nakLimit
	CountCQOverflow    // completions lost
	CountMigrated      // path migrations
	DropEntropy        // connected QP: the packet's Entropy is not the peer's (Hints.StrictSource)
	CountEntropyChange // connected QP: an accepted packet's Entropy differs from that of the packet before
	CountPostponed     // timeouts put off because received packets waited to be delivered
	CountMarked        // received packets of a peer that the network has marked (ECN)
	CountCNPSent       // congestion notifications sent
	CountCNP           // and received from the peer of a connected QP
	CountCNPIgnored    // and received for other QPs
	CountImplied       // responses that show that an earlier one is lost

	// Requests executed.
	CountWrites
	CountReads
	CountAtomics // COMPARE & SWAP, FETCH & ADD

	// Completions with an error, of send queues and of receive queues.
	CountSendError
	CountSendFlushed // among them
	CountRecvError
	CountRecvFlushed // among them
	CountSendAccess  // the peer has refused an access
	CountSendInvalid // the peer has refused an invalid request
	CountSendTimeout // retries exhausted
	CountSendRNR     // RNR retries exhausted
	CountRecvLength  // receive too short

	CountRecvAccess // accesses of the peer that were refused
	numCounters
)

var counterNames = [numCounters]string{
	"packets_received", "packets_sent", "drop_malformed", "drop_icrc", "drop_ipv4_id", "drop_not_for_us",
	"drop_send_failed", "drop_no_qp", "drop_qp_state", "drop_service", "drop_source", "drop_pkey", "drop_qkey",
	"drop_no_receive", "drop_length", "drop_sequence", "drop_duplicate", "drop_stale_ack", "drop_access",
	"drop_response", "drop_busy", "retries", "rnr_nak_sent", "rnr_nak_received", "sequence_nak_sent",
	"sequence_nak_received", "fatal_nak_sent", "sequence_errors_delayed", "cq_overflow", "migrations",
	"drop_source_port", "source_port_changes", "retries_postponed", "np_ecn_marked_roce_packets",
	"np_cnp_sent", "rp_cnp_handled", "rp_cnp_ignored", "implied_nak_seq_err", "rx_write_requests",
	"rx_read_requests", "rx_atomic_requests", "req_cqe_error", "req_cqe_flush_error", "resp_cqe_error",
	"resp_cqe_flush_error", "req_remote_access_errors", "req_remote_invalid_request", "retry_exceeded_err",
	"retry_rnr_exceeded_err", "resp_local_length_error", "resp_remote_access_errors",
}

// linuxNames are names of counters of Linux's drivers mlx5 and rxe that tools read, for what the engine counts by a
// name of its own.
var linuxNames = map[string][]Counter{
	"sent_pkts":             {CountSent},
	"rcvd_pkts":             {CountRecv},
	"duplicate_request":     {DropDuplicate},
	"out_of_sequence":       {DropSequence},
	"out_of_seq_request":    {DropSequence},
	"out_of_buffer":         {DropNoRecv, CountRNRNak},
	"packet_seq_err":        {CountSeqRetry},
	"rcvd_seq_err":          {CountSeqRetry},
	"local_ack_timeout_err": {CountRetry},
	"rnr_nak_retry_err":     {CountRNRRetry},
	"rcvd_rnr_err":          {CountRNRRetry},
	"send_rnr_err":          {CountRNRNak},
	"completer_retry_err":   {CountRetry, CountSeqRetry, CountImplied},
	"send_err":              {DropSendFailed},
}

func (c Counter) String() string {
	if c < numCounters {
		return counterNames[c]
	}
	return "unknown counter"
}

type counters [numCounters]atomic.Uint64

func (c *counters) add(k Counter, n int) { c[k].Add(uint64(n)) }

// completed counts a completion with an error.
func (c *counters) completed(wc *ci.WC) {
	if wc.Op == ci.WCRecv || wc.Op == ci.WCRecvWrite {
		c.add(CountRecvError, 1)
		switch wc.Status {
		case ci.WCFlushErr:
			c.add(CountRecvFlushed, 1)
		case ci.WCLocalLenErr:
			c.add(CountRecvLength, 1)
		}
		return
	}
	c.add(CountSendError, 1)
	switch wc.Status {
	case ci.WCFlushErr:
		c.add(CountSendFlushed, 1)
	case ci.WCRemAccessErr:
		c.add(CountSendAccess, 1)
	case ci.WCRemInvalidReqErr:
		c.add(CountSendInvalid, 1)
	case ci.WCTimeoutRetryErr:
		c.add(CountSendTimeout, 1)
	case ci.WCRNRRetryErr:
		c.add(CountSendRNR, 1)
	}
}

// snapshot returns all counters by name. It allocates.
func (c *counters) snapshot() map[string]uint64 {
	m := make(map[string]uint64, int(numCounters)+len(linuxNames))
	for k := range c {
		m[counterNames[k]] = c[k].Load()
	}
	return m
}

// addLinuxNames adds the counters by their names in Linux.
func addLinuxNames(m map[string]uint64) {
	for name, list := range linuxNames {
		for _, c := range list {
			m[name] += m[c.String()]
		}
	}
}
