# Two commands are all a newcomer needs: make run, make test.
.PHONY: run test check units conformance clients servers kernel kernel-steady btrfs quotas pynfs races bench

run: ## Build, serve a demo directory, print how to mount it
	@mkdir -p demo && test -e demo/README.txt || echo "Put files here." > demo/README.txt
	cargo run --quiet --package cli -- serve demo

test: ## Install what tests need where that is allowed, then run them all
	conformance/prepare
	$(MAKE) --no-print-directory check units clients servers kernel kernel-steady btrfs quotas conformance

check: ## Form, lints, licences, house rules
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked --quiet -- -D warnings
	cargo xtask licences
	cargo xtask tidy
	cargo xtask coverage --check

units: ## Everything that needs no other program
	cargo test --workspace --locked --quiet

clients: ## Foreign clients against the built server
	cargo build --locked --quiet --package cli
	conformance/clients
	conformance/shares
	conformance/samba
	conformance/nfs-tls

servers: ## Our client against foreign servers: Debian's Samba and the newest, NFS-Ganesha (root)
	conformance/ganesha-root
	cargo test --package cli --test client --test bench --test copy --test probe --locked --quiet -- --ignored --test-threads 1

kernel: ## The Linux kernel's own client, in a virtual machine
	cargo build --locked --quiet --package cli
	conformance/kernel uml
	conformance/kernel-channels uml
	conformance/kernel-nfs uml

kernel-steady: ## The same with Debian 12's kernel under emulation: 3 minutes on a quiet machine
	cargo build --locked --quiet --package cli
	conformance/kernel bookworm

quotas: ## Quotas of users, by smbcquotas, on file systems that have them (root)
	cargo build --locked --quiet --package cli
	conformance/quotas

conformance: ## Samba's own test suite against the built server
	cargo build --locked --quiet --package cli
	cargo xtask conformance smb

btrfs: ## What needs a file system that shares blocks and compresses, on an image of its own
	cargo build --locked --quiet --package cli
	conformance/btrfs

pynfs: ## The tests of NFSv4.1 that servers are held against; fetched where that is allowed (root; minutes)
	cargo build --locked --quiet --package cli
	conformance/pynfs

races: ## The server under ThreadSanitizer while channels come and go (needs rustup: a nightly toolchain)
	conformance/races

bench: ## Side by side with Samba and NFS-Ganesha; takes some minutes
	cargo build --release --locked --package cli
	cargo xtask bench peers --charts benchmarks
	cargo xtask bench lines --charts benchmarks
	cargo xtask bench metadata
	cargo xtask bench copy
	conformance/ganesha-root
	cargo xtask bench nfs --charts benchmarks
