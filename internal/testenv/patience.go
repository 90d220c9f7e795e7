package testenv

import "time"

// Patience bounds a wait in real time for what has to happen. A right program on a machine with nothing else to do
// takes a thousandth of it: a test that waits less judges how busy the machine is.
const Patience = 2 * time.Minute
