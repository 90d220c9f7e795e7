package model

import "ciddk/ci"

// bind is a bind of a window.
type bind struct{}

// executeLocal executes a request that has no message.
func (q *QP) executeLocal(*request) (ci.WCStatus, Rule) { return ci.WCSuccess, "" }

// invalidate invalidates a key of a fast registration or of a window of type 2. It returns false if the key cannot be
// invalidated.
func (q *QP) invalidate(ci.Key) bool { return false }
