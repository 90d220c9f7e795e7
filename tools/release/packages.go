package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // a format of nfpm
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // a format of nfpm
)

// A file is one of an archive and of packages.
type file struct {
	source    string
	archived  string // in the archive, below its folder
	installed string // in packages; "" if it is not in them
	mode      os.FileMode
	kind      string // of nfpm
}

// files returns the files of archives and packages.
func (r release) files(programs []program, bom, licenses string) []file {
	tree := func(elem ...string) string { return filepath.Join(append([]string{r.root}, elem...)...) }
	doc := "/usr/share/doc/" + name + "/"
	units, systemd := tree("cmd", "ddkd", "systemd"), "/usr/lib/systemd/system/"
	list := []file{
		{tree("LICENSE"), "LICENSE", doc + "copyright", 0o644, ""},
		{licenses, "THIRD-PARTY-LICENSES", doc + "THIRD-PARTY-LICENSES", 0o644, ""},
		{tree("CHANGELOG.md"), "CHANGELOG.md", doc + "CHANGELOG.md", 0o644, ""},
		{bom, "sbom.cdx.json", doc + "sbom.cdx.json", 0o644, ""},
		{filepath.Join(units, "ddkd.service"), "systemd/ddkd.service", systemd + "ddkd.service", 0o644, ""},
		{filepath.Join(units, "ddkd.socket"), "systemd/ddkd.socket", systemd + "ddkd.socket", 0o644, ""},
		{filepath.Join(units, "ddkd.yaml"), "systemd/ddkd.yaml", "/etc/ddkd.yaml", 0o644, files.TypeConfigNoReplace},
		{tree("tools", "release", "sysusers.conf"), "systemd/sysusers.conf", "/usr/lib/sysusers.d/ddkd.conf", 0o644,
			""},
	}
	for _, p := range programs {
		list = append(list, file{p.path, "bin/" + p.name, "/usr/bin/" + p.name, 0o755, ""})
	}
	return list
}

// writeArchive writes base.tar.gz, with everything in the folder base.
func (r release) writeArchive(base string, list []file) (err error) {
	w, err := os.Create(filepath.Join(r.out, base+".tar.gz"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	for _, f := range list {
		b, err := os.ReadFile(f.source)
		if err != nil {
			return err
		}
		h := &tar.Header{Name: base + "/" + f.archived, Mode: int64(f.mode), Size: int64(len(b)), ModTime: r.time,
			Format: tar.FormatUSTAR}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(b); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}

// writePackage writes a package in a format of nfpm, and returns its name.
func (r release) writePackage(format, arch string, list []file) (_ string, err error) {
	scripts := filepath.Join(r.root, "tools", "release")
	info := &nfpm.Info{
		Name: name, Version: r.version, Arch: arch, Platform: "linux", Section: "net", Priority: "optional",
		Maintainer: "the developers of the HCA Driver Development Kit", License: "Apache-2.0", MTime: r.time,
		Description: "RDMA adapters in software for the programs of this machine\n" +
			"ddkrun runs unmodified verbs programs on them, and ddkd owns them.\n" +
			"ddk-validate certifies drivers of InfiniBand and RoCE adapters.",
	}
	info.Scripts.PostInstall = filepath.Join(scripts, "postinstall")
	info.Scripts.PreRemove = filepath.Join(scripts, "preremove")
	info.RPM.BuildHost = name
	info.Recommends = []string{map[string]string{"deb": "ibverbs-providers", "rpm": "libibverbs"}[format]}
	for _, f := range list {
		if f.installed != "" {
			info.Contents = append(info.Contents, &files.Content{Source: f.source, Destination: f.installed,
				Type: f.kind, FileInfo: &files.ContentFileInfo{Mode: f.mode, MTime: r.time}})
		}
	}
	info = nfpm.WithDefaults(info)
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return "", err
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return "", err
	}
	file := packager.ConventionalFileName(info)
	w, err := os.Create(filepath.Join(r.out, file))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	return file, packager.Package(info, w)
}
