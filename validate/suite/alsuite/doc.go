// Package alsuite holds the cases for the access layer over the driver under test: registration and removal, shared
// opens, the tree of objects and its destruction, and PnP. A recorder (package ci/ciwrap) between the access layer and
// the driver records which verbs reach the driver, in which order, and whether a callback called them. What no driver
// can break, such as pumps and pools of regions, is tested in package accesslayer.
//
// Each file holds one area: its requirements, and below each requirement the cases that prove it. Most requirements are
// those of the specification (req.SAS). Package almutants holds the drivers that break them. Package validate describes
// the form of cases, under "For authors of cases".
package alsuite
