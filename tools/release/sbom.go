package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeBOM writes a software bill of materials in CycloneDX's format: the programs, and for each the modules in it, as
// its build information lists them.
func (r release) writeBOM(file string, programs []program) (err error) {
	self := cdx.Component{BOMRef: "pkg:generic/" + name + "@" + r.version, Type: cdx.ComponentTypeApplication,
		Name: name, Version: r.version}
	var components []cdx.Component
	libraries := map[string]cdx.Component{}
	depends := []cdx.Dependency{{Ref: self.BOMRef, Dependencies: new([]string)}}
	for _, p := range programs {
		b, err := os.ReadFile(p.path)
		if err != nil {
			return err
		}
		c := cdx.Component{BOMRef: p.name, Type: cdx.ComponentTypeApplication, Name: p.name, Version: r.version,
			Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sha256.Sum256(b))}}}
		components = append(components, c)
		*depends[0].Dependencies = append(*depends[0].Dependencies, c.BOMRef)
		on := []string{library(libraries, "std", strings.TrimPrefix(p.info.GoVersion, "go"))}
		for _, m := range p.info.Deps {
			on = append(on, library(libraries, m.Path, m.Version))
		}
		depends = append(depends, cdx.Dependency{Ref: c.BOMRef, Dependencies: &on})
	}
	for _, ref := range slices.Sorted(maps.Keys(libraries)) {
		components = append(components, libraries[ref])
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: r.time.Format(time.RFC3339), Component: &self}
	bom.Components, bom.Dependencies = &components, &depends
	w, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
}

// library adds a module to the libraries if it is missing, and returns its reference.
func library(libraries map[string]cdx.Component, path, version string) string {
	ref := "pkg:golang/" + path + "@" + version
	libraries[ref] = cdx.Component{BOMRef: ref, Type: cdx.ComponentTypeLibrary, Name: path, Version: version,
		PackageURL: ref}
	return ref
}
