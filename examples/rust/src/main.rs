// SPDX-License-Identifier: 0BSD
//! Reads a picture of 8x8 characters and prints the digit that the model sees in it.

use std::{env, fs, process::exit};

const SHADES: &str = " .:-=+*#@"; // from paper to ink

/// Writes the picture into the model's input. None if it has too few lines.
fn read_picture(text: &str, input: &mut digits::Input) -> Option<()> {
    let mut lines = text.lines();
    for row in input.chunks_mut(8) {
        let mut line = lines.next()?.chars();
        for pixel in row {
            let ink = SHADES.find(line.next().unwrap_or(' ')).unwrap_or(0) as i32;
            // Ink of 0 to 1 is stored as its 255 parts, less 128: the crate's scale and zero point.
            *pixel = (ink * 255 / 8 + i32::from(digits::INPUT_ZERO_POINT)) as i8;
        }
    }
    Some(())
}

fn main() {
    let Some(path) = env::args().nth(1) else {
        eprintln!("usage: read_digit PICTURE");
        exit(2);
    };
    let mut model = digits::Model::take().expect("nobody else has the model");
    let text = fs::read_to_string(&path).unwrap_or_default();
    if read_picture(&text, model.inputs().input).is_none() {
        eprintln!("{path}: cannot be read as 8 lines of 8 characters");
        exit(1);
    }
    let scores = model.run().output;
    let mut best = 0;
    for (digit, score) in scores.iter().enumerate() {
        if *score > scores[best] {
            best = digit;
        }
    }
    println!("{best}");
}
