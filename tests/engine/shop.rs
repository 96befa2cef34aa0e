//! A place where paid commands buy.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

/// An endpoint that sells: counts what was bought, by name.
pub(crate) struct Shop {
    pub(crate) port: u16,
    sold: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl Shop {
    pub(crate) fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let sold = Arc::new(Mutex::new(BTreeMap::new()));
        let book = Arc::clone(&sold);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { break };
                let book = Arc::clone(&book);
                std::thread::spawn(move || {
                    let mut line = String::new();
                    if BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).is_ok() {
                        *book.lock().unwrap().entry(line.trim().to_owned()).or_insert(0) += 1;
                        let _ = stream.write_all(b"sold\n");
                    }
                });
            }
        });
        Self { port, sold }
    }

    pub(crate) fn sold(&self) -> BTreeMap<String, usize> {
        self.sold.lock().unwrap().clone()
    }
}
