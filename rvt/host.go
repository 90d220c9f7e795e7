package rvt

// requesterHost is the QP as its requester uses it, beside the endpoint.
type requesterHost interface {
	// toError takes the QP to Error and begins to flush it.
	toError(t *turn)
	// kick runs a turn, now or when the token is free. It does not block.
	kick()
}

// responderHost is the QP as its responder uses it, beside the endpoint.
type responderHost interface {
	// toError takes the QP to Error and begins to flush it.
	toError(t *turn)
	// deferAck makes the port send the acknowledgement that is due when it finds nothing more to receive.
	deferAck()
}
