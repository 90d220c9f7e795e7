// Package alsuite holds the cases for the access layer over the driver under test: registration and removal, shared opens,
// the tree of objects and its destruction, PnP, and the consumption of completions. A recorder (package ci/ciwrap) stands
// between the access layer and the driver. It records which verbs reach the driver, in which order, and on which stack.
//
// Each file holds one area: its requirements, and below each requirement the cases that prove it. Most requirements are
// those of the specification (req.SAS). Package almutants holds the drivers that break them. Package validate describes the
// form, under "For authors of cases".
package alsuite
