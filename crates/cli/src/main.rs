//! The `mantissa` binary.

fn main() -> std::process::ExitCode {
    mantissa::main()
}
