// Tests the server with the Go library go-smb2.
//
//	foreign HOST PORT SHARE USER PASSWORD DIALECT signed|sealed STRANGERS-PORT
//
// The library encrypts if the share requires it, and cannot choose the cipher. The lane's relay checks
// the traffic at PORT. The logon with a wrong password uses STRANGERS-PORT.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"time"

	"github.com/cloudsoda/go-smb2"
)

const (
	entries  = 5000
	size     = 64 << 20
	folder   = "go-smb2"
	needle   = folder + `\anabranch-needle`
	unicode  = folder + `\Grüße Ω 日本 😀`
	deadline = 5 * time.Minute
)

var dialects = map[string]uint16{"2.0.2": 0x202, "2.1": 0x210, "3.0": 0x300, "3.0.2": 0x302, "3.1.1": 0x311}

func main() {
	log.SetFlags(0)
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	host, share := os.Args[1], os.Args[3]
	dial := func(port, password string) (*smb2.Session, error) {
		dialer := &smb2.Dialer{
			Negotiator: smb2.Negotiator{RequireMessageSigning: true, SpecifiedDialect: dialects[os.Args[6]]},
			Initiator:  &smb2.NTLMInitiator{User: os.Args[4], Password: password},
		}
		return dialer.Dial(ctx, host+":"+port)
	}
	_, err := dial(os.Args[8], "wrong")
	var refused *smb2.ResponseError
	must(errors.As(err, &refused) && refused.Code == 0xC000006D, "a wrong password", err)
	session, err := dial(os.Args[2], os.Args[5])
	check("log on", err)
	defer session.Logoff()
	mounted, err := session.Mount(`\\` + host + `\` + share)
	check("mount", err)
	mounted = mounted.WithContext(ctx)
	list(mounted)
	check("mkdir", mounted.Mkdir(folder, 0o755))
	thereAndBack(mounted)
	refusals(mounted)
	check("remove", mounted.Remove(unicode))
	check("remove the folder", mounted.Remove(folder))
	check("umount", mounted.Umount())
}

func list(mounted *smb2.Share) {
	found, err := mounted.ReadDir("many")
	check("list", err)
	names := map[string]bool{}
	for _, entry := range found {
		names[entry.Name()] = true
	}
	must(len(names) == entries && len(found) == entries, fmt.Sprint(len(found), " entries"), nil)
	must(names["entry-0000-ä"] && names["entry-4999-ä"], "the first or the last entry", nil)
}

func thereAndBack(mounted *smb2.Share) {
	data := make([]byte, size)
	for at := range data {
		data[at] = byte(at>>16) ^ byte(at*7)
	}
	check("write", mounted.WriteFile(needle, data, 0o644))
	back, err := mounted.ReadFile(needle)
	check("read", err)
	must(bytes.Equal(back, data), "other bytes came back", nil)
	check("rename", mounted.Rename(needle, unicode))
	about, err := mounted.Stat(unicode)
	check("stat", err)
	must(about.Size() == size, "another size", nil)
	inside, err := mounted.ReadDir(folder)
	check("list the folder", err)
	must(len(inside) == 1 && folder+`\`+inside[0].Name() == unicode, "another name", nil)
}

func refusals(mounted *smb2.Share) {
	_, err := mounted.Open(needle)
	must(errors.Is(err, fs.ErrNotExist), "a missing file", err)
	_, err = mounted.ReadDir(folder + `\missing`)
	must(errors.Is(err, fs.ErrNotExist), "a missing directory", err)
	_, err = mounted.OpenFile(unicode, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	must(errors.Is(err, fs.ErrExist), "a file that exists", err)
	must(errors.Is(mounted.Mkdir(folder, 0o755), fs.ErrExist), "a directory that exists", nil)
	_, err = mounted.Open("denied")
	must(errors.Is(err, fs.ErrPermission), "a file of somebody else", err)
	var refused *smb2.ResponseError
	must(errors.As(mounted.Remove(folder), &refused) && refused.Code == 0xC0000101, "a directory with entries", nil)
}

func check(what string, err error) {
	must(err == nil, what, err)
}

func must(is bool, what string, err error) {
	if !is {
		log.Fatalf("%s: %v (%T)", what, err, err)
	}
}
