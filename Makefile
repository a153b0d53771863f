# Two commands are all a newcomer needs: make run, make test.
.PHONY: run test quick release check units built browser package conformance clients servers kernel kernel-uml kernel-channels kernel-nfs kernel-nfs-load kernel-nfs-steady kernel-steady \
    btrfs xfs quotas pynfs suites pike wpts foreign authority attacks domain wiretap power races hostile bench test-all

# Tests against other programs, longest first: two go on at once, each with addresses of its own.
LANES = kernel-uml conformance servers kernel-steady clients foreign pike wpts quotas kernel-channels kernel-nfs kernel-nfs-steady suites btrfs xfs package browser authority attacks power domain wiretap
# Nor does a lane read what the others are given: smbd ends when its standard input does.
lane = < /dev/null ANABRANCH_TEST_NET=$$(($${ANABRANCH_TEST_NET:-0} + $(1)))

run: ## Build, serve a demo directory, print how to mount it
	@mkdir -p demo && test -e demo/README.txt || echo "Put files here." > demo/README.txt
	cargo run --quiet --package cli -- serve demo

test: ## Install what tests need where that is allowed, then run them all
	conformance/prepare
	$(MAKE) --no-print-directory check units
	$(MAKE) --no-print-directory --jobs 2 --keep-going --output-sync=target $(LANES)

# Another share of a long lane for each commit, the same one again for the same commit: hexadecimal.
commit_seed = $$(git rev-parse --short=8 HEAD 2> /dev/null || echo 1)

test-all: built ## Those lanes whole that `make test` runs a share of: an hour; see conformance/OUTCOMES.md
	conformance/test-all

quick: ## The inner loop: form, lints and tests of the crates that changed, house rules
	cargo xtask quick

check: ## Form, lints, the build for aarch64, licences, known faults of dependencies, house rules
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked --quiet -- -D warnings
	conformance/aarch64
	cargo xtask licences
	cargo xtask advisories
	cargo xtask tidy
	cargo xtask coverage --check

units: ## Everything that needs no other program
	ANABRANCH_HOSTILE_SEED=$(commit_seed) ANABRANCH_HOSTILE_MESSAGES=1000000 \
	    cargo test --workspace --locked --quiet --no-fail-fast

hostile: ## Two hostile users against one victim over SMB and NFS: 30 million messages, some ten minutes
	ANABRANCH_HOSTILE_SEED=$(commit_seed) ANABRANCH_HOSTILE_MESSAGES=30000000 \
	    cargo test --package fuzz --test hostile --locked --quiet -- --nocapture

built:
	cargo build --locked --quiet --package cli

browser: built ## Pages that people look at, in Debian's Chromium
	conformance/browser/install
	$(call lane,12) cargo test --package cli --test tools --locked --quiet bench_report -- --ignored
	$(call lane,12) conformance/dashboard

release: ## The build to serve with, guided by a profile: a quarter of an hour on 2 cores
	packaging/release

package: built ## The Debian package in a fresh root: installed, served, upgraded, purged (root)
	$(call lane,11) packaging/loads $${CARGO_TARGET_DIR:-target}/debug/anabranch 0.3
	$(call lane,11) conformance/package

clients: built ## Foreign clients against the built server
	$(call lane,1) conformance/clients
	$(call lane,1) conformance/shares
	$(call lane,1) conformance/space
	$(call lane,1) conformance/samba
	$(call lane,1) conformance/nfs-tls
	$(call lane,1) conformance/kerberos
	$(call lane,1) conformance/hosts

servers: built ## Our client against foreign servers: Debian's Samba and the newest, NFS-Ganesha (root)
	$(call lane,2) conformance/ganesha-root
	$(call lane,2) conformance/exports
	$(call lane,2) cargo test --package cli --test tools --locked --quiet -- --ignored --skip bench_report --test-threads 1

kernel: kernel-uml kernel-channels kernel-nfs ## The Linux kernel's own client, in a virtual machine

kernel-uml: built
	$(call lane,3) ANABRANCH_GRACE_MS=1000 conformance/kernel uml

kernel-channels: built
	$(call lane,9) conformance/kernel-channels uml

kernel-nfs: built
	$(call lane,10) conformance/kernel-nfs uml
	$(call lane,10) conformance/kernel-nfs-tls uml
	$(call lane,10) conformance/kernel-nfs trixie killed 2 1 16

kernel-nfs-load: built ## Three minutes of mixed load on 16 connections that are cut meanwhile
	$(call lane,10) conformance/kernel-nfs uml load 180 16

kernel-nfs-steady: built ## Debian 12's kernel over NFS, emulated: some three minutes on a quiet machine
	$(call lane,13) conformance/kernel-nfs bookworm few

kernel-steady: built ## The same with Debian 12's kernel under emulation: 3 minutes on a quiet machine
	$(call lane,4) conformance/kernel bookworm

quotas: built ## Quotas of users, by smbcquotas, on file systems that have them (root)
	$(call lane,5) conformance/quotas

conformance: built ## Samba's own test suite against the built server
	$(call lane,6) cargo xtask conformance smb

btrfs: built ## What needs a file system that shares blocks and compresses, on an image of its own
	$(call lane,7) conformance/btrfs

xfs: built ## What needs projects and attributes of 64 KiB, on an image of its own (root)
	$(call lane,22) conformance/xfs

pynfs: built ## The tests of NFSv4.1 that servers are held against; fetched where that is allowed (root; minutes)
	$(call lane,8) conformance/pynfs

suites: built ## A share of pjdfstest and others through the kernel's NFS client; fetched where that is allowed (root)
	$(call lane,21) conformance/suites few $$(printf %d 0x$(commit_seed)) pjdfstest-rs pjdfstest cthon04

pike: built ## The tests of SMB2 and SMB3 that Isilon wrote; fetched (root; two minutes)
	$(call lane,19) conformance/pike

wpts: built ## A share of Microsoft's tests of file servers; fetched where that is allowed (root; two minutes)
	$(call lane,23) conformance/wpts few $$(printf %d 0x$(commit_seed))

foreign: built ## Client libraries in C, Java, Go, Python and JavaScript, fetched, with programs of ours (three minutes)
	$(call lane,20) conformance/foreign

authority: built ## Each caller by each operation by each kind of permission, on ext4 (root)
	$(call lane,14) conformance/authority

attacks: built ## What was tried against the server, each attempt a test that it withstands (root)
	$(call lane,15) conformance/attacks

domain: built ## Tickets of an Active Directory domain by Samba's controller: whose, how long, large, slow (root)
	$(call lane,18) conformance/domain

wiretap: built ## A share of Samba's test suite, signed and sealed, for nonces that are used twice
	$(call lane,16) cargo xtask conformance smb --wiretap signed --lanes 2 --share 12 --seed $$(printf %d 0x$(commit_seed))
	$(call lane,16) cargo xtask conformance smb --wiretap sealed --lanes 2 --share 12 --seed $$(printf %d 0x$(commit_seed))

power: built ## A share of the power cuts after acknowledged operations, on ext4, XFS and btrfs (root)
	$(call lane,17) conformance/power few $$(printf %d 0x$(commit_seed))

races: ## The server under ThreadSanitizer while channels come and go (needs rustup: a nightly toolchain)
	conformance/races

bench: ## Side by side with Samba and NFS-Ganesha; takes some minutes
	cargo build --release --locked --package cli
	cargo xtask bench peers --charts benchmarks
	cargo xtask bench links --charts benchmarks
	cargo xtask bench metadata
	cargo xtask bench metadata --backend-latency-us 1000
	cargo xtask bench copy
	conformance/ganesha-root
	cargo xtask bench nfs --charts benchmarks
